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

// ended knows which sessions have been ended before they expire, and ends their requests. Replicas tell each
// other by a text of each tenant in the ledger (shared.go).
type ended struct {
	ledger gateway.Ledger // nil if there are no replicas

	mu       sync.Mutex
	byTenant map[string]*endedOf
	open     map[string]*openSession // by id, those with requests under way
}

// endedOf has the sessions of a tenant that have been ended.
type endedOf struct {
	expires map[string]time.Time // by their ids
	open    int                  // how many sessions have requests under way
	ended   context.CancelFunc   // of what asks the ledger meanwhile

	reading sync.Mutex
	readAt  time.Time // when the ledger was read; guarded by reading
}

// openSession has the requests of a session that are under way.
type openSession struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	tenant   string
	requests int
}

var errEnded = errors.New("the session has ended")

func newEnded(ledger gateway.Ledger) *ended {
	return &ended{ledger: ledger, byTenant: map[string]*endedOf{}, open: map[string]*openSession{}}
}

// of returns a tenant's. There are as many as tenants that log in.
func (e *ended) of(tenant string) *endedOf {
	of := e.byTenant[tenant]
	if of == nil {
		of = &endedOf{expires: map[string]time.Time{}}
		e.byTenant[tenant] = of
	}
	return of
}

// begin says that a request of a session is under way. The context ends with the session. The error is
// [errNoSession] if that has ended, and another if nobody can tell.
func (e *ended) begin(ctx context.Context, s *session) (context.Context, func(), error) {
	if err := e.read(ctx, s.Tenant); err != nil {
		return ctx, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.of(s.Tenant)
	if _, over := of.expires[s.ID]; over {
		return ctx, nil, errNoSession
	}
	o := e.open[s.ID]
	if o == nil {
		o = &openSession{tenant: s.Tenant}
		o.ctx, o.cancel = context.WithCancelCause(context.Background())
		e.open[s.ID] = o
		if of.open++; of.open == 1 {
			e.watch(of, s.Tenant)
		}
	}
	o.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, endTime := context.WithDeadlineCause(ctx, s.expires(), errEnded)
	stop := context.AfterFunc(o.ctx, func() { cancel(errEnded) })
	return ctx, func() {
		stop()
		endTime()
		cancel(nil)
		e.leave(o, of, s.ID)
	}, nil
}

// leave says that a request of a session is no longer under way.
func (e *ended) leave(o *openSession, of *endedOf, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.requests--; o.requests > 0 {
		return
	}
	if e.open[id] == o {
		delete(e.open, id)
	}
	o.cancel(nil)
	if of.open--; of.open == 0 {
		of.ended()
	}
}

// end ends a session, here and by the ledger at all replicas. It has ended here also with an error.
func (e *ended) end(ctx context.Context, s *session) error {
	e.add(s.Tenant, map[string]time.Time{s.ID: s.expires()})
	return e.tell(ctx, s)
}

// add adds sessions to a tenant's that have been ended, and ends their requests.
func (e *ended) add(tenant string, more map[string]time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.of(tenant)
	maps.Copy(of.expires, more)
	bound(of.expires)
	for id := range of.expires {
		if o := e.open[id]; o != nil {
			o.cancel(errEnded)
		}
	}
}

// bound forgets sessions that have expired, and of too many those that expire first.
func bound(all map[string]time.Time) {
	maps.DeleteFunc(all, func(_ string, expires time.Time) bool { return !time.Now().Before(expires) })
	if len(all) <= endedLimit {
		return
	}
	ids := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return all[a].Compare(all[b]) })
	for _, id := range ids[:len(ids)-endedLimit] {
		delete(all, id)
	}
}
