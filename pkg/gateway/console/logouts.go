package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
)

// logouts knows which sessions have been ended before they expire, and ends their requests. Replicas tell each
// other by a text of each tenant in the ledger (logoutledger.go).
type logouts struct {
	ledger gateway.Ledger // nil if there are no replicas

	mu       sync.Mutex
	byTenant map[string]*tenantLogouts
	open     map[string]*openSession // by id, those with requests under way
}

// tenantLogouts has the sessions of a tenant that have been ended.
type tenantLogouts struct {
	record
	active    int    // how many sessions have requests under way
	stopWatch func() // ends what asks the ledger meanwhile

	exchange     *exchange // the newest one with the ledger; nil before the first
	readAt       time.Time // when the newest one began that succeeded
	toTell, told int       // how often there was something to tell the replicas, and how much of it they know
}

// record says which sessions of a tenant have been ended: those that it names, and since it names only so many, all
// that expire no later than one which it names no longer.
type record struct {
	Expires   map[string]time.Time // by the ids of sessions
	Forgotten time.Time            // when the last of those expires that it names no longer
}

// has reports whether a session has been ended.
func (r *record) has(id string, expires time.Time) bool {
	_, named := r.Expires[id]
	return named || !expires.After(r.Forgotten)
}

// add adds what another record says.
func (r *record) add(more record) {
	if r.Expires == nil {
		r.Expires = map[string]time.Time{}
	}
	maps.Copy(r.Expires, more.Expires)
	if more.Forgotten.After(r.Forgotten) {
		r.Forgotten = more.Forgotten
	}
	r.bound()
}

// bound forgets sessions that have expired, and of too many those that expire first.
func (r *record) bound() {
	maps.DeleteFunc(r.Expires, func(_ string, expires time.Time) bool { return !time.Now().Before(expires) })
	if len(r.Expires) <= endedLimit {
		return
	}
	ids := slices.SortedFunc(maps.Keys(r.Expires), func(a, b string) int { return r.Expires[a].Compare(r.Expires[b]) })
	for _, id := range ids[:len(ids)-endedLimit] {
		if expires := r.Expires[id]; expires.After(r.Forgotten) {
			r.Forgotten = expires
		}
		delete(r.Expires, id)
	}
}

// openSession has the requests of a session that are under way.
type openSession struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	tenant   string
	expires  time.Time
	requests int
}

var errEnded = errors.New("the session has ended")

func newLogouts(ledger gateway.Ledger) *logouts {
	return &logouts{ledger: ledger, byTenant: map[string]*tenantLogouts{}, open: map[string]*openSession{}}
}

// of returns a tenant's. There are as many as tenants that log in.
func (l *logouts) of(tenant string) *tenantLogouts {
	of := l.byTenant[tenant]
	if of == nil {
		of = &tenantLogouts{}
		l.byTenant[tenant] = of
	}
	return of
}

// begin says that a request of a session is under way. The context ends with the session. The error is
// [errNoSession] if that has ended, and another if nobody can tell.
func (l *logouts) begin(ctx context.Context, s *session) (context.Context, func(), error) {
	if err := l.read(ctx, s.Tenant); err != nil {
		return ctx, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(s.Tenant)
	if of.has(s.ID, s.expires()) {
		return ctx, nil, errNoSession
	}
	o := l.open[s.ID]
	if o == nil {
		o = &openSession{tenant: s.Tenant, expires: s.expires()}
		o.ctx, o.cancel = context.WithCancelCause(context.Background())
		l.open[s.ID] = o
		if of.active++; of.active == 1 {
			l.watch(of, s.Tenant)
		}
	}
	o.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, endTime := context.WithDeadlineCause(ctx, s.expires(), errEnded)
	stop := context.AfterFunc(o.ctx, func() { cancel(context.Cause(o.ctx)) })
	return ctx, func() {
		stop()
		endTime()
		cancel(nil)
		l.leave(o, of, s.ID)
	}, nil
}

// leave says that a request of a session is no longer under way.
func (l *logouts) leave(o *openSession, of *tenantLogouts, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.requests--; o.requests > 0 {
		return
	}
	if l.open[id] == o {
		delete(l.open, id)
	}
	o.cancel(nil)
	if of.active--; of.active == 0 {
		of.stopWatch()
	}
}

// end ends a session here. The replicas are told with the next exchange with the ledger: see tell.
func (l *logouts) end(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.of(s.Tenant); !of.has(s.ID, s.expires()) {
		l.add(s.Tenant, record{Expires: map[string]time.Time{s.ID: s.expires()}})
		of.toTell++
	}
}

// over reports whether a session has ended at all replicas, as far as is known.
func (l *logouts) over(s *session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(s.Tenant)
	return of.has(s.ID, s.expires()) && (l.ledger == nil || of.told == of.toTell)
}

// add adds sessions to a tenant's that have been ended, and ends their requests. It is called with mu.
func (l *logouts) add(tenant string, more record) {
	of := l.of(tenant)
	of.add(more)
	for id, o := range l.open {
		if o.tenant == tenant && of.has(id, o.expires) {
			o.cancel(errEnded)
		}
	}
}
