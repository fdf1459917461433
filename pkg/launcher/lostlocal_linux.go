package launcher

import (
	"context"
	"errors"
	"fmt"

	"github.com/podagent/podagent/pkg/podapi"
)

// agentProcess is an agent that this process has started.
type agentProcess struct {
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

// giveUp is the Retry of local sandboxes: an agent that has ended does not come
// back by itself, so there is only one try.
func giveUp(_ context.Context, _ int, err error) error {
	return fmt.Errorf("%w: %w", podapi.ErrUnavailable, err)
}

// whyLost returns what has become of the agent at p; nil if it lives. If this
// process started the agent, it knows how the agent ended.
func (p place) whyLost(ctx context.Context, started *agentProcess) error {
	if started != nil {
		select {
		case <-started.ended:
			return fmt.Errorf("its process ended: %s", exitText(started.err))
		case <-ctx.Done():
			return nil
		}
	}
	if running, err := answers(ctx, p.path(socketFile)); running || err != nil {
		return nil // another agent may listen there, or it cannot be found out
	}
	return errors.New("its process has ended")
}
