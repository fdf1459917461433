package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/podapi"
)

// query makes short calls of the pod's agent, which may not be well. If the agent
// cannot be reached within the patience, the error is podapi.ErrUnavailable, but not if the
// API server refuses the connection.
func (o *openPod) query(ctx context.Context, patience time.Duration, calls func(context.Context, *podapi.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	opts := o.options()
	tries := int(patience / queryTry)
	opts.Retry = func(ctx context.Context, try int, err error) error { return o.retryShortly(ctx, try, tries, err) }
	client, err := podapi.Dial(opts)
	if err != nil {
		return err
	}
	defer client.Close()
	return calls(ctx, client)
}

// retryShortly allows a connection to fail a few times, as it may by accident.
func (o *openPod) retryShortly(ctx context.Context, try, tries int, err error) error {
	if isRefusal(err) {
		return o.apiError(o.pod.Name, err)
	}
	if errors.Is(err, podapi.ErrWrongPod) {
		return err
	}
	if try >= tries {
		return fmt.Errorf("%w: %w", podapi.ErrUnavailable, err)
	}
	delay.For(ctx, time.Duration(try)*firstRetry)
	return nil
}
