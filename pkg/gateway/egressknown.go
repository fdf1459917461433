package gateway

import (
	"context"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// tenantSandbox is a sandbox that may run, of a tenant with an Egress.
type tenantSandbox struct {
	launcher.Summary
	tenant, name string
	since        time.Time // when this was found out
}

// list finds out which sandboxes run whose tenants have an Egress. If not all can be listed, those that
// were known stay.
func (w *waysOut) list(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, egressListTime)
	defer cancel()
	all, err := w.g.Launcher.List(ctx)
	if err != nil && w.life.Err() == nil {
		w.g.Log.WarnContext(ctx, "cannot list all sandboxes to let them out", "error", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := map[string]tenantSandbox{}
	for id, s := range w.known {
		if err != nil || s.since.After(began) {
			next[id] = s
		}
	}
	for _, s := range all {
		out, ok := tenantSandboxOf(s, began)
		if before, known := w.known[s.ID]; s.State == launcher.Pending && (!known || !sameSandbox(before.Summary, s)) {
			continue // whoever makes it begins
		}
		if ok && w.tenant(out.tenant).policy(ctx, w.g) != nil {
			if _, newer := next[s.ID]; !newer || err != nil {
				next[s.ID] = out
			}
		}
	}
	w.known, w.listed = next, began
	w.forgetTenants()
}

// tenantSandboxOf returns a sandbox that may run, if a gateway has made it.
func tenantSandboxOf(s launcher.Summary, at time.Time) (tenantSandbox, bool) {
	tenant, name, ok := splitID(s.ID)
	return tenantSandbox{s, tenant, name, at}, ok && s.Labels[labelIdentity] != "" && mayRun(s)
}

// mayRun reports whether the agent of a sandbox may answer. A launch is over when it does, which a cluster
// may tell later.
func mayRun(s launcher.Summary) bool {
	return s.State == launcher.Running || s.State == launcher.Pending
}

// sameSandbox reports whether two descriptions are of one sandbox, rather than of two that had its name.
func sameSandbox(a, b launcher.Summary) bool {
	return a.Labels[labelIdentity] == b.Labels[labelIdentity]
}

// forgetTenants forgets those without a sandbox, so that no more are remembered than there are. Its caller
// has the lock.
func (w *waysOut) forgetTenants() {
	used := map[string]bool{}
	for _, s := range w.known {
		used[s.tenant] = true
	}
	for _, f := range w.farEnds {
		used[f.tenant] = true
	}
	for name, t := range w.tenants {
		if !used[name] && t.open == 0 {
			delete(w.tenants, name)
		}
	}
}

// succeeded takes over that there is a sandbox in the place of one that was known.
func (w *waysOut) succeeded(s launcher.Summary, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if out, ok := tenantSandboxOf(s, at); ok && !w.known[s.ID].since.After(at) {
		w.known[s.ID] = out
	}
}
