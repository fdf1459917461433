package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// ended knows which sessions have been ended before they expire, and ends their requests.
type ended struct {
	mu       sync.Mutex
	byTenant map[string]map[string]time.Time // when they expire, by their ids
	open     map[string]*openSession         // by id, those with requests under way
}

func newEnded() *ended {
	return &ended{byTenant: map[string]map[string]time.Time{}, open: map[string]*openSession{}}
}

// openSession has the requests of a session that are under way.
type openSession struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	requests int
}

var errEnded = errors.New("the session has ended")

// has reports whether a session was ended.
func (e *ended) has(s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.knows(s)
}

func (e *ended) knows(s *session) bool {
	_, ended := e.byTenant[s.Tenant][s.ID]
	return ended
}

// begin says that a request of a session is under way. The context ends with the session. It is false if that
// has ended.
func (e *ended) begin(ctx context.Context, s *session) (context.Context, func(), bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.knows(s) {
		return ctx, nil, false
	}
	o := e.open[s.ID]
	if o == nil {
		o = &openSession{}
		o.ctx, o.cancel = context.WithCancelCause(context.Background())
		e.open[s.ID] = o
	}
	o.requests++
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, endTime := context.WithDeadlineCause(ctx, s.expires(), errEnded)
	stop := context.AfterFunc(o.ctx, func() { cancel(errEnded) })
	return ctx, func() {
		stop()
		endTime()
		cancel(nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		if o.requests--; o.requests == 0 && e.open[s.ID] == o {
			delete(e.open, s.ID)
			o.cancel(nil)
		}
	}, true
}

// end ends a session.
func (e *ended) end(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of := e.byTenant[s.Tenant]
	if of == nil {
		of = map[string]time.Time{}
		e.byTenant[s.Tenant] = of
	}
	maps.DeleteFunc(of, func(_ string, expires time.Time) bool { return !time.Now().Before(expires) })
	if len(of) >= endedLimit {
		first := slices.MinFunc(slices.Collect(maps.Keys(of)), func(a, b string) int { return of[a].Compare(of[b]) })
		delete(of, first)
	}
	of[s.ID] = s.expires()
	if o := e.open[s.ID]; o != nil {
		o.cancel(errEnded)
	}
}
