package gateway

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// lookups find out about sandboxes for those who have shown no token, at a bounded price: what is
// found, or not, counts for a moment, and few are looked up at a time. Strangers can ask for any
// number of names, so each tenant has a part of its own, and those that were there before go on
// beside new ones.
type lookups struct {
	find  func(ctx context.Context, id string) (launcher.Summary, error)
	life  context.Context // of the gateway
	slots chan struct{}   // of all tenants

	mu       sync.Mutex
	byTenant map[string]*tenantLookups // of those that there are or were
}

// tenantLookups are those of a tenant's sandboxes. lookups.mu guards byName.
type tenantLookups struct {
	byName     map[string]*lookup
	new, again chan struct{} // slots for names that were not there when they were last looked up, and for the others
}

// lookup is one sandbox that was looked up, or is being so.
type lookup struct {
	done    chan struct{} // closed when all else is set
	summary launcher.Summary
	err     error
	until   time.Time
	was     bool // it was there when that could last be told
}

func newLookups(life context.Context, find func(context.Context, string) (launcher.Summary, error)) *lookups {
	return &lookups{find: find, life: life, slots: make(chan struct{}, lookupsAtOnce), byTenant: map[string]*tenantLookups{}}
}

var errLookups = &refusal{http.StatusServiceUnavailable, "unavailable", "too many sandboxes are looked up at once"}

// get describes a tenant's sandbox. The tenant is one that there is.
func (l *lookups) get(ctx context.Context, tenant, name string) (launcher.Summary, error) {
	found, err := l.join(tenant, name)
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
func (l *lookups) join(tenant, name string) (*lookup, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.byTenant[tenant]
	if of == nil {
		of = &tenantLookups{byName: map[string]*lookup{}, new: make(chan struct{}, lookupsOfTenant), again: make(chan struct{}, lookupsOfTenant)}
		l.byTenant[tenant] = of
	}
	last := of.byName[name]
	if last != nil && (!last.isDone() || time.Now().Before(last.until)) {
		return last, nil
	}
	if last == nil && !of.makeRoom() {
		return nil, errLookups
	}
	found, own := &lookup{done: make(chan struct{}), was: last != nil && last.was}, of.new
	if found.was {
		own = of.again
	}
	of.byName[name] = found
	go l.fill(launcherID(tenant, name), found, own)
	return found, nil
}

// makeRoom reports whether there is room for another name. It first forgets what was not found, then
// what has not been asked for lately.
func (t *tenantLookups) makeRoom() bool {
	for _, goes := range []func(*lookup) bool{
		func(*lookup) bool { return false },
		func(f *lookup) bool { return !f.was },
		func(f *lookup) bool { return time.Since(f.until) > lookupKept },
	} {
		maps.DeleteFunc(t.byName, func(_ string, f *lookup) bool { return f.isDone() && goes(f) })
		if len(t.byName) < lookupLimit {
			return true
		}
	}
	return false
}

// fill looks a sandbox up when there is a slot of the tenant's own, and one of all.
func (l *lookups) fill(id string, found *lookup, own chan struct{}) {
	defer close(found.done)
	defer func() { found.until = time.Now().Add(lookupFor) }()
	ctx, cancel := context.WithTimeout(l.life, lookupTime)
	defer cancel()
	for _, slots := range []chan struct{}{own, l.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			found.err = errLookups
			return
		}
	}
	found.summary, found.err = l.find(ctx, id)
	if found.err == nil || errors.Is(found.err, launcher.ErrNotFound) {
		found.was = found.err == nil
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
	tenant, name, _ := strings.Cut(id, separator)
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.byTenant[tenant]; of != nil {
		delete(of.byName, name)
	}
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
	s, err := from.get(ctx, t.tenant, t.name)
	if _, ours := errors.AsType[*refusal](err); err == nil || ours || ctx.Err() != nil {
		return s, err
	}
	if _, status := classify(err); status < http.StatusInternalServerError { // such as what is another client's
		return launcher.Summary{}, launcher.ErrNotFound
	}
	g.Log.ErrorContext(ctx, "cannot look up a sandbox", "error", err)
	return launcher.Summary{}, &refusal{http.StatusServiceUnavailable, "unavailable", "the gateway cannot look up sandboxes"}
}
