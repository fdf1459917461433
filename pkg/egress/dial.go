package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// Resolver looks up names; *net.Resolver is one. The proxy asks it with the network
// "ip" and with the name's final dot, so that no search list changes what it means.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// dialer reaches targets by a policy.
type dialer struct {
	resolver Resolver
	private  ranges
}

// unreachable is the error of an allowed target that was not reached. Its text is for
// the sandbox, and names no address of the far end's.
type unreachable struct {
	text  string
	cause error
}

func (u *unreachable) Error() string { return u.text }
func (u *unreachable) Unwrap() error { return u.cause }

// resolve returns the addresses of a target that may be dialled: at least one, or a
// *refusal or *unreachable.
func (d dialer) resolve(ctx context.Context, p Policy, t target, g grant) ([]netip.Addr, error) {
	addrs := g.pinned
	switch {
	case t.name == "":
		addrs = []netip.Addr{t.addr}
	case len(addrs) == 0:
		var err error
		if addrs, err = d.resolver.LookupNetIP(ctx, "ip", t.name+"."); err != nil {
			return nil, unresolved(t, err)
		}
	}
	var allowed []netip.Addr
	var refused error
	for _, addr := range addrs {
		addr = addr.Unmap()
		if err := p.checkAddress(addr, t, d.private); err != nil {
			refused = err
		} else if len(allowed) < mostAddresses {
			allowed = append(allowed, addr)
		}
	}
	switch {
	case len(allowed) > 0:
		return allowed, nil
	case refused != nil:
		return nil, refused
	}
	return nil, &unreachable{text: t.name + " has no address"}
}

func unresolved(t target, err error) error {
	var dns *net.DNSError
	why := "the lookup failed"
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		why = "no such host"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		why = "the lookup timed out"
	}
	return &unreachable{fmt.Sprintf("%s cannot be resolved: %s", t.name, why), err}
}

// dial connects to one of the addresses, which must have been checked. It begins with
// the first, and with the next when one fails or has not answered for a while.
func (d dialer) dial(ctx context.Context, t target, addrs []netip.Addr) (*net.TCPConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn *net.TCPConn
		err  error
	}
	results := make(chan result)
	start := func(addr netip.Addr) {
		conn, err := dialAddress(ctx, netip.AddrPortFrom(addr, t.port))
		select {
		case results <- result{conn, err}:
		case <-ctx.Done():
			if err == nil {
				conn.Close()
			}
		}
	}
	next, running := 0, 0
	stagger := time.NewTimer(0)
	defer stagger.Stop()
	var first error
	for {
		select {
		case <-ctx.Done():
			return nil, unconnected(t, context.Cause(ctx))
		case <-stagger.C:
			if next < len(addrs) {
				go start(addrs[next])
				next, running = next+1, running+1
				stagger.Reset(nextAddress)
			}
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			if first == nil {
				first = r.err
			}
			if running--; running == 0 && next == len(addrs) {
				return nil, unconnected(t, first)
			}
			stagger.Reset(0)
		}
	}
}

// dialAddress dials an address as it is: nothing resolves it again.
func dialAddress(ctx context.Context, addr netip.AddrPort) (*net.TCPConn, error) {
	conn, err := new(net.Dialer).DialTCP(ctx, "tcp", netip.AddrPort{}, addr)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func unconnected(t target, err error) error {
	why := "the connection failed"
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		why = errno.Error()
	case errors.Is(err, context.DeadlineExceeded):
		why = "no answer in " + strconv.Itoa(int(connectTime/time.Second)) + " s"
	}
	return &unreachable{fmt.Sprintf("cannot connect to %v: %s", t, why), err}
}
