package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// ask has a short word with the pod's agent, about a pod that need not be well.
// That the agent cannot be reached is podapi.ErrUnavailable; that the API server
// does not let us is not.
func (t *target) ask(ctx context.Context, word func(context.Context, *podapi.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	opts := t.options(nil)
	opts.Retry = t.retryShortly
	client, err := podapi.Dial(opts)
	if err != nil {
		return err
	}
	defer client.Close()
	return word(ctx, client)
}

// retryShortly lets a connection fail a few times, as one can by accident.
func (t *target) retryShortly(ctx context.Context, try int, err error) error {
	if isRefusal(err) {
		return t.apiError(t.pod.Name, err)
	}
	if errors.Is(err, podapi.ErrWrongPod) {
		return err
	}
	if try >= askTries {
		return fmt.Errorf("%w: %w", podapi.ErrUnavailable, err)
	}
	pause(ctx, time.Duration(try)*firstRetry)
	return nil
}
