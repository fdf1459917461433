package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// A sandbox that was made to pause by itself sleeps while nobody works in it: its pod has ended
// or was paused, and its files are kept. A call that works in it resumes it, and waits; one that
// looks on does not.

// errNotYet says that a sandbox could not be reached in the time that a caller waits.
var errNotYet = &busy{&refusal{http.StatusServiceUnavailable, "not_ready", "the sandbox is not ready yet: try again"}, retryAfter}

// openSandbox opens a sandbox. One that sleeps it resumes if it may wake it, and else says that it is
// paused, also if its pod is still there. Its callers wait for as long as they like.
func (g *Gateway) openSandbox(ctx context.Context, id string, wake bool) (*launcher.Sandbox, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, openTime, errNotYet)
	defer cancel()
	if tenant, name, uid, ok := parseForeign(id); ok {
		return g.openOwnOrForeign(ctx, tenant, name, uid, wake)
	}
	return g.openOwn(ctx, id, wake)
}

// openOwn is openSandbox for the id of a launcher.
func (g *Gateway) openOwn(ctx context.Context, id string, wake bool) (*launcher.Sandbox, error) {
	s, err := g.Launcher.Open(ctx, id)
	if !slices.ContainsFunc(mayBeAsleep, func(class error) bool { return errors.Is(err, class) }) {
		return s, err
	}
	p, ok := g.Launcher.(pauser)
	if !ok {
		return nil, err
	}
	summary, findErr := g.Launcher.Find(ctx, id)
	switch {
	case findErr != nil:
		return nil, fmt.Errorf("%w, and cannot tell whether to wake it: %w", err, findErr)
	case summary.State == launcher.Paused && hasExpired(summary):
		return nil, fmt.Errorf("%w: its lifetime is over", launcher.ErrStale)
	case !sleeps(summary):
		return nil, err
	case !wake:
		return nil, fmt.Errorf("%w: %v", launcher.ErrPaused, err)
	}
	if ctx, err = g.paidBy(ctx, summary); err != nil {
		return nil, err
	}
	if s, err = g.launchWithin(ctx, g.wantedAgain(id), func(ctx context.Context) (*launcher.Sandbox, error) { return p.Resume(ctx, id) }); err == nil {
		g.waysOut.start(ctx, id) // its callers wait for it
	}
	return s, err
}

// paidBy returns a context whose caller's budget pays for a resumption: for a visitor without a key,
// that of the key that made the sandbox.
func (g *Gateway) paidBy(ctx context.Context, s launcher.Summary) (context.Context, error) {
	caller := callerOf(ctx)
	policy, err := g.policy(ctx)
	if err != nil || caller.Key != "" {
		return ctx, err
	}
	for key := range policy.Budgets {
		if makerOf(key) == s.Labels[labelMaker] {
			caller.Key = key
		}
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// mayBeAsleep are the errors of a sandbox that may sleep: it is paused, has ended, or its pod is being
// removed by a pause.
var mayBeAsleep = []error{launcher.ErrPaused, launcher.ErrStale, launcher.ErrGone}

// stateOf is the state of a sandbox as callers see it: one that pauses by itself has ended its pod.
func stateOf(s launcher.Summary) launcher.State {
	switch {
	case s.State == launcher.Ended && sleeps(s):
		return launcher.Paused
	case s.State == launcher.Paused && hasExpired(s):
		return launcher.Ended
	}
	return s.State
}

// hasExpired reports whether the lifetime of a sandbox is over.
func hasExpired(s launcher.Summary) bool { return !s.Expires.IsZero() && !time.Now().Before(s.Expires) }

// sleeps reports whether a sandbox is one that calls resume. One whose lifetime is over is not.
func sleeps(s launcher.Summary) bool {
	return s.Labels[labelAutoPause] != "" && (s.State == launcher.Paused || s.State == launcher.Ended || s.State == launcher.Terminating) &&
		!hasExpired(s)
}
