package gateway

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// lookups find out about sandboxes for those who have shown no token, at a bounded price: what is
// found, or not, counts for a moment, and few are looked up at a time.
type lookups struct {
	find  func(ctx context.Context, id string) (launcher.Summary, error)
	life  context.Context // of the gateway
	slots chan struct{}

	mu   sync.Mutex
	byID map[string]*lookup
}

// lookup is one sandbox that was looked up, or is being so.
type lookup struct {
	done    chan struct{} // closed when all else is set
	summary launcher.Summary
	err     error
	until   time.Time
}

func newLookups(life context.Context, find func(context.Context, string) (launcher.Summary, error)) *lookups {
	return &lookups{find: find, life: life, slots: make(chan struct{}, lookupsAtOnce), byID: map[string]*lookup{}}
}

var errLookups = &refusal{http.StatusServiceUnavailable, "unavailable", "too many sandboxes are looked up at once"}

// get describes a sandbox.
func (l *lookups) get(ctx context.Context, id string) (launcher.Summary, error) {
	found, err := l.join(id)
	if err != nil {
		return launcher.Summary{}, err
	}
	select {
	case <-found.done:
		return found.summary, found.err
	case <-ctx.Done():
		return launcher.Summary{}, ctx.Err()
	}
}

// join returns the lookup of a sandbox, which it begins if there is none that still counts.
func (l *lookups) join(id string) (*lookup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := l.byID[id]; found != nil && (!found.isDone() || time.Now().Before(found.until)) {
		return found, nil
	}
	if len(l.byID) >= lookupLimit {
		for other, found := range l.byID {
			if found.isDone() {
				delete(l.byID, other)
			}
		}
	}
	if len(l.byID) >= lookupLimit {
		return nil, errLookups
	}
	found := &lookup{done: make(chan struct{})}
	l.byID[id] = found
	go l.fill(id, found)
	return found, nil
}

func (l *lookups) fill(id string, found *lookup) {
	defer close(found.done)
	defer func() { found.until = time.Now().Add(lookupFor) }()
	ctx, cancel := context.WithTimeout(l.life, lookupTime)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
		found.summary, found.err = l.find(ctx, id)
	case <-ctx.Done():
		found.err = errLookups
	}
}

func (f *lookup) isDone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// forget makes the next get look again, because this gateway has changed something.
func (l *lookups) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, id)
}

// forgetLookups is forget of all lookups.
func (g *Gateway) forgetLookups(id string) {
	g.lookups.forget(id)
	g.linked.forget(id)
}

// isPublic reports whether anybody may call a server.
func (g *Gateway) isPublic(ctx context.Context, t *target) (bool, error) {
	s, err := g.known(ctx, g.lookups, t)
	if errors.Is(err, launcher.ErrNotFound) {
		return false, nil
	}
	return err == nil && isPublic(s, t.port), err
}

// known describes the sandbox of a target that names its tenant. Of a tenant that there is no
// longer, there is none.
func (g *Gateway) known(ctx context.Context, from *lookups, t *target) (launcher.Summary, error) {
	if _, err := g.Tenants.Policy(ctx, t.tenant); err != nil {
		return launcher.Summary{}, launcher.ErrNotFound
	}
	s, err := from.get(ctx, launcherID(t.tenant, t.name))
	if _, ours := errors.AsType[*refusal](err); err == nil || ours || ctx.Err() != nil {
		return s, err
	}
	if _, status := classify(err); status < http.StatusInternalServerError { // such as what is another client's
		return launcher.Summary{}, launcher.ErrNotFound
	}
	g.Log.ErrorContext(ctx, "cannot look up a sandbox", "error", err)
	return launcher.Summary{}, &refusal{http.StatusServiceUnavailable, "unavailable", "the gateway cannot look up sandboxes"}
}
