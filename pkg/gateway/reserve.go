package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/launcher"
)

// wanted is what a caller wants to have made or resumed.
type wanted struct {
	id       string
	amounts  amounts
	lifetime time.Duration // 0: it does not end by itself
	limit    time.Duration // how long the launch may take
	resume   bool          // amounts and lifetime are those of the sandbox that there is
}

// wantedFor returns what a launch makes.
func (g *Gateway) wantedFor(spec *launcher.Spec) wanted {
	w := wanted{id: spec.ID, amounts: amountsOf(spec), limit: cmp.Or(spec.Take.ReadyTimeout, launcher.DefaultReadyTimeout) + launchSpare}
	if spec.Git != nil {
		w.limit += cmp.Or(spec.Git.Timeout, launcher.DefaultGitTimeout)
	}
	if !g.isLocal() {
		w.lifetime = cmp.Or(spec.Pod.Lifetime, spec.Pod.ActiveDeadline, launcher.DefaultActiveDeadline)
	}
	return w
}

// wantedAgain returns what the resumption of a sandbox makes.
func (g *Gateway) wantedAgain(id string) wanted {
	spec := g.Base
	spec.ID, spec.Git = id, nil
	w := g.wantedFor(&spec)
	w.resume = true
	return w
}

// isLocal reports whether the sandboxes are processes, whose resources have no bounds.
func (g *Gateway) isLocal() bool {
	_, local := g.Launcher.(*launcher.Local)
	return local
}

// launchWithin makes or resumes a sandbox for the caller, within the tenant's quota and the budget of the
// caller's key: launch may take wanted.limit. Without a quota and a budget it only calls launch.
func (g *Gateway) launchWithin(ctx context.Context, w wanted, launch func(context.Context) (*launcher.Sandbox, error)) (*launcher.Sandbox, error) {
	caller := callerOf(ctx)
	policy, err := g.policy(ctx)
	if err != nil {
		return nil, err
	}
	launch = toldFollowers(w.resume, launch)
	budget, budgeted := policy.Budgets[caller.Key]
	quota := policy.Quota.amounts()
	if !budgeted && quota == (amounts{}) {
		return launch(ctx)
	}
	if quota.sums() && g.isLocal() {
		return nil, huma.Error501NotImplemented("the local backend bounds no processor, memory and storage: the quota of a tenant can be of sandboxes alone")
	}
	b, token, r := g.books.of(g, caller.Tenant), rand.Text()[:8], reservation{ID: w.id, Amounts: w.amounts}
	if budgeted {
		r.Key = caller.Key
	}
	err = b.write(func(p *page) error {
		var err error
		r, err = p.take(token, r, w, &policy.Quota, &budget)
		return err
	})
	if err != nil {
		return nil, g.uncounted(ctx, err)
	}
	var s *launcher.Sandbox
	defer func() {
		if err := b.write(func(p *page) error { p.release(token, r, s, w); return nil }); err != nil {
			g.Log.ErrorContext(ctx, "a reservation stays until its time is over", "sandbox", w.id, "error", err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	s, err = launch(ctx)
	return s, err
}

// take reserves what is wanted.
func (p *page) take(token string, r reservation, w wanted, quota *Quota, budget *Budget) (reservation, error) {
	all, err := p.list()
	if err == nil && r.Key != "" {
		err = p.closeEnded()
	}
	if err != nil {
		return r, err
	}
	there := all[w.id]
	if w.resume && there != nil {
		_, r.Amounts = amountsIn(there)
		w.lifetime = cmp.Or(there.Lifetime, w.lifetime)
	}
	r.Until, r.Span = p.now.Add(w.limit+clockSkew).Unix(), nil
	if r.Key != "" && (there == nil || !lives(there)) {
		r.Span = p.spanOf(w.lifetime)
	}
	return r, p.reserve(token, r, quota, budget)
}

// spanOf returns the span of a sandbox that begins now.
func (p *page) spanOf(lifetime time.Duration) *span {
	s := span{From: p.now.Unix()}
	if lifetime > 0 {
		s.To = s.From + int64(lifetime/time.Second)
	}
	return &s
}

// release takes a reservation out of the page once its launch has ended, with this sandbox or none.
func (p *page) release(token string, r reservation, s *launcher.Sandbox, w wanted) {
	delete(p.Reserved, token)
	if s == nil || r.Key == "" {
		return
	}
	if r.Span == nil && s.Created { // the one that there was is gone
		r.Span = p.spanOf(w.lifetime)
	}
	if r.Span != nil {
		p.open(r.Key, r.ID, *r.Span)
	}
}

// uncounted returns the error for a sandbox that is not made because of what the tenant has, or
// because that cannot be counted.
func (g *Gateway) uncounted(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*usedUp](err); ok {
		return err
	}
	g.Log.ErrorContext(ctx, "cannot count what a tenant has", "tenant", tenantOf(ctx), "error", err)
	for _, e := range []error{errNoLedger, errBookFull} {
		if errors.Is(err, e) {
			return huma.Error503ServiceUnavailable(e.Error())
		}
	}
	return huma.Error503ServiceUnavailable("the gateway cannot count what the tenant has: try again")
}

// giveBack gives back to the budget of a key what a sandbox did not use, which is gone or paused.
func (g *Gateway) giveBack(ctx context.Context, id string) {
	policy, err := g.policy(ctx)
	if err == nil && len(policy.Budgets) > 0 {
		err = g.books.of(g, tenantOf(ctx)).write(func(p *page) error { p.close(id); return nil })
	}
	if err != nil {
		g.Log.ErrorContext(ctx, "what a sandbox did not use is given back later", "sandbox", id, "error", err)
	}
}

// endWithin has a sandbox end at a time, if that is no later than it was, or the budget of the key
// that made it admits it. What a sandbox that ends sooner does not use is given back then.
func (g *Gateway) endWithin(ctx context.Context, id string, at time.Time, set func() (time.Time, error)) (time.Time, error) {
	policy, err := g.policy(ctx)
	if err != nil {
		return time.Time{}, err
	}
	if len(policy.Budgets) == 0 {
		return set()
	}
	var old int64
	b := g.books.of(g, tenantOf(ctx))
	err = b.write(func(p *page) error {
		var err error
		old, err = p.extend(id, at.Unix(), policy.Budgets)
		return err
	})
	if errors.Is(err, errNoSpan) {
		return set()
	}
	if err != nil {
		return time.Time{}, g.uncounted(ctx, err)
	}
	expires, err := set()
	if isUnchanged(err) {
		if undo := b.write(func(p *page) error { p.shorten(id, at.Unix(), old); return nil }); undo != nil {
			g.Log.ErrorContext(ctx, "a budget is charged for longer than a sandbox lives", "sandbox", id, "error", undo)
		}
	}
	return expires, err
}

// isUnchanged reports whether an error says that a sandbox ends when it would have. After others,
// such as that the caller has left, it may end later.
func isUnchanged(err error) bool {
	for _, class := range []error{launcher.ErrNoLifetime, launcher.ErrDeadline, launcher.ErrNotFound, launcher.ErrPaused, launcher.ErrStale} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
