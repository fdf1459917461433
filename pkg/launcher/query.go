package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// query makes short calls of the pod's agent, which may not be well. An agent that
// cannot be reached is podapi.ErrUnavailable; an API server that does not let us
// is not.
func (t *target) query(ctx context.Context, calls func(context.Context, *podapi.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	opts := t.options(nil)
	opts.Retry = t.retryShortly
	client, err := podapi.Dial(opts)
	if err != nil {
		return err
	}
	defer client.Close()
	return calls(ctx, client)
}

// retryShortly lets a connection fail a few times, as it may by accident.
func (t *target) retryShortly(ctx context.Context, try int, err error) error {
	if isRefusal(err) {
		return t.apiError(t.pod.Name, err)
	}
	if errors.Is(err, podapi.ErrWrongPod) {
		return err
	}
	if try >= queryTries {
		return fmt.Errorf("%w: %w", podapi.ErrUnavailable, err)
	}
	sleep(ctx, time.Duration(try)*firstRetry)
	return nil
}
