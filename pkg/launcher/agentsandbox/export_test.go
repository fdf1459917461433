package agentsandbox

import (
	"context"

	"github.com/podagent/podagent/pkg/launcher"
)

// Acquire finds or makes the object of a sandbox, as a launch does, but waits for no pod. It
// returns the object's UID, and, if it made it, what undoes that.
func (l *Launcher) Acquire(ctx context.Context, spec launcher.Spec) (uid string, abandon func(context.Context) error, err error) {
	c, err := l.cluster(ctx)
	if err != nil {
		return "", nil, err
	}
	for {
		f, made, err := c.acquire(ctx, &spec, false)
		switch {
		case err == nil && made:
			return string(f.main().GetUID()), func(ctx context.Context) error { return c.abandon(ctx, f) }, nil
		case err == nil:
			return string(f.main().GetUID()), nil, nil
		case !mayTryAgain(err) || ctx.Err() != nil:
			return "", nil, err
		}
	}
}

// FindUID returns the UID of the object of a sandbox.
func (l *Launcher) FindUID(ctx context.Context, id string) (uid string, err error) {
	c, err := l.cluster(ctx)
	if err != nil {
		return "", err
	}
	f, err := c.find(ctx, id)
	if err != nil {
		return "", err
	}
	return string(f.main().GetUID()), nil
}
