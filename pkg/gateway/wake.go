package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	s, err := g.Launcher.Open(ctx, id)
	if !errors.Is(err, launcher.ErrPaused) && !errors.Is(err, launcher.ErrStale) {
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
	case !sleeps(summary):
		return nil, err
	case !wake:
		return nil, fmt.Errorf("%w: %v", launcher.ErrPaused, err)
	}
	return g.launchWithin(ctx, g.wantedAgain(id), func(ctx context.Context) (*launcher.Sandbox, error) { return p.Resume(ctx, id) })
}

// stateOf is the state of a sandbox as callers see it: one that pauses by itself has ended its pod.
func stateOf(s launcher.Summary) launcher.State {
	if sleeps(s) {
		return launcher.Paused
	}
	return s.State
}

// sleeps reports whether a sandbox is one that calls resume. One whose lifetime is over is not.
func sleeps(s launcher.Summary) bool {
	return s.Labels[labelAutoPause] != "" && (s.State == launcher.Paused || s.State == launcher.Ended) &&
		(s.Expires.IsZero() || time.Now().Before(s.Expires))
}
