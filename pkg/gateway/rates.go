package gateway

import (
	"cmp"
	"errors"
	"hash/maphash"
	"math"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate bounds how often a tenant may call. Zero is no bound.
type Rate struct {
	PerSecond float64 `json:"requests_per_second"`
	Burst     int     `json:"burst"` // how many may come at once; zero is as many as in a second
}

func (p Policy) checkRates() error {
	if !(p.Rate.PerSecond >= 0) || math.IsInf(p.Rate.PerSecond, 0) || p.Rate.Burst < 0 || p.Streams < 0 {
		return errors.New("a rate, a burst and streams are 0 or more")
	}
	if p.Rate.Burst > 0 && p.Rate.PerSecond == 0 {
		return errors.New("a burst needs requests_per_second")
	}
	return nil
}

// limit returns the rate for a limiter.
func (r Rate) limit() (rate.Limit, int) {
	switch {
	case r.PerSecond == 0:
		return rate.Inf, 0
	case r.Burst > 0:
		return rate.Limit(r.PerSecond), r.Burst
	}
	return rate.Limit(r.PerSecond), max(1, int(min(math.Ceil(r.PerSecond), math.MaxInt32)))
}

// loads are what the tenants do with this gateway. It knows those alone that have called: as many
// as the keys have had.
type loads struct {
	mu       sync.Mutex
	byTenant map[string]*load
}

// load is what a tenant does. loads.mu guards it.
type load struct {
	rate     *rate.Limiter
	underWay int
}

// enter counts a request of a tenant until leave is called, or refuses it.
func (l *loads) enter(tenant string, p Policy) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(tenant, p)
	if of.underWay >= cmp.Or(p.Streams, defaultStreams) {
		return nil, tooMany("streams", "the tenant has as many requests under way at this gateway as it may", time.Second)
	}
	if err := of.pay(); err != nil {
		return nil, err
	}
	of.underWay++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		of.underWay--
	}, nil
}

// pay takes a request of the tenant's rate for more of one that is under way.
func (l *loads) pay(tenant string, p Policy) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(tenant, p).pay()
}

// of returns what a tenant does, with the rate that it has now. It is called with mu.
func (l *loads) of(tenant string, p Policy) *load {
	of := l.byTenant[tenant]
	if of == nil {
		of = &load{rate: rate.NewLimiter(p.Rate.limit())}
		l.byTenant[tenant] = of
	}
	limit, burst := p.Rate.limit()
	if of.rate.Limit() != limit || of.rate.Burst() != burst {
		of.rate.SetLimit(limit)
		of.rate.SetBurst(burst)
	}
	return of
}

// pay takes a request of the rate.
func (l *load) pay() error {
	if wait := waitFor(l.rate); wait > 0 {
		return tooMany("rate", "the tenant sends more requests to this gateway than it may", wait)
	}
	return nil
}

// waitFor takes an event from a limiter. If there is none, it returns how long it takes to the
// next one.
func waitFor(l *rate.Limiter) time.Duration {
	r := l.Reserve()
	wait := r.Delay()
	if wait > 0 {
		r.Cancel()
	}
	return wait
}

// failures count wrong tokens by the address that they come from. Addresses share counters, by a
// hash that nobody outside knows, so that there are always as many.
type failures struct {
	seed   maphash.Seed
	counts [failureCounts]*rate.Limiter
}

func newFailures() *failures {
	f := &failures{seed: maphash.MakeSeed()}
	for i := range f.counts {
		f.counts[i] = rate.NewLimiter(failureRate, failureBurst)
	}
	return f
}

// of returns the counter for a request's host.
func (f *failures) of(r *http.Request) *rate.Limiter {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	if addr, err := netip.ParseAddr(host); err == nil {
		host = HostOf(addr).String()
	}
	return f.counts[maphash.String(f.seed, host)%failureCounts]
}

// HostOf returns what stands for the host that has an address: this, or for IPv6 the network of 64 bits that a
// host has for itself.
func HostOf(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.Addr()
	}
	return addr
}
