package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podagent/podagent/pkg/podapi"
)

// target is the pod of an open sandbox, and the way to its agent.
type target struct {
	*cluster
	pod *corev1.Pod // as it was found

	state  *podState
	access access
	addr   podAddress

	mu       sync.Mutex
	dead     error     // why there will be no connection any more
	conn     net.Conn  // the latest
	stranger time.Time // since when another pod's agent answers
}

func (c *cluster) target(pod *corev1.Pod) *target {
	return &target{cluster: c, pod: pod, state: &podState{changed: make(chan struct{})}}
}

// options returns how the pod's agent is reached. A configuration that is not
// nil is set on it, and again whenever it has restarted.
func (t *target) options(config *podapi.Config) podapi.DialOptions {
	options := podapi.DialOptions{
		Dialer: t.dial, Retry: t.retry, Lost: t.whyLost, Config: config,
		Identity: &t.identity, PodUID: string(t.pod.UID),
	}
	if t.connectionTo(t.pod) == ByAddress {
		options.Vouch = t.vouch
	}
	return options
}

// dial connects to the agent, as soon as that can be.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	if err := t.awaitNetwork(ctx); err != nil {
		return nil, err
	}
	if err := t.isDead(); err != nil {
		return nil, err
	}
	conn, err := t.connect(ctx, t.connectionTo(t.pod))
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead != nil {
		conn.Close()
		return nil, t.dead
	}
	t.conn = conn
	return conn, nil
}

// awaitNetwork waits until the node has made the pod's network: before that it
// refuses, and each try takes the time of processors that the start needs.
func (t *target) awaitNetwork(ctx context.Context) error {
	for {
		state, changed := t.state.begin()
		if state == nil || hasNetwork(state) && (state.Status.PodIP != "" || t.connectionTo(state) != ByAddress) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// hasNetwork reports whether a port-forward may find the pod's network. Nodes
// before Kubernetes 1.29 do not say when it is there.
func hasNetwork(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			return c.Status == corev1.ConditionTrue
		}
	}
	return pod.Status.StartTime != nil
}

// retry waits before another try to connect. It ends the tries when the pod was
// replaced, deleted or has ended.
func (t *target) retry(ctx context.Context, try int, err error) error {
	if err := t.whyStop(ctx, try, err); err != nil {
		return err
	}
	tries, changed := t.state.failed(try, err)
	wait := time.NewTimer(retryDelay(tries))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case <-changed: // a new state may be the one in which it works
	case <-wait.C:
	}
	return nil
}

// retryDelay returns how long to wait after so many tries.
func retryDelay(try int) time.Duration {
	delay := firstRetry
	for range try - 1 {
		delay = min(delay*3/2, lastRetry)
	}
	return delay
}

// whyStop returns why further tries to connect are of no use, nil if they may be.
// Another pod's agent may answer because this pod has been replaced, or because its
// container starts again.
func (t *target) whyStop(ctx context.Context, try int, err error) error {
	dead := t.isDead()
	stranger, late := t.isStranger(try, err)
	switch {
	case dead != nil:
		return dead
	case isRefusal(err):
		return t.access.refuse(t.apiError(t.pod.Name, err))
	case t.state.latest() != nil && !stranger: // the watch judges
		return nil
	}
	if end := t.whyEnded(ctx); end != nil || !late {
		return end
	}
	return err
}

// isStranger reports whether another pod's agent has answered, and whether only
// others have for so long that this pod's never will.
func (t *target) isStranger(try int, err error) (stranger, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	stranger = errors.Is(err, podapi.ErrWrongPod)
	switch {
	case !stranger:
		t.stranger = time.Time{}
	case try == 1 || t.stranger.IsZero():
		t.stranger = time.Now()
	}
	return stranger, stranger && time.Since(t.stranger) > strangerPatience
}

// whyEnded returns why the pod, as the API server has it now, will take no
// connection any more; nil if it may. What it returns is the answer to every
// further call.
func (t *target) whyEnded(ctx context.Context) error {
	now, err := t.get(ctx, t.pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		err = t.podError(t.pod, ErrGone, "", "it was deleted")
	case isRefusal(err):
		return t.access.refuse(err)
	case errors.As(err, new(*PodError)): // not even the namespace is there
		return err
	case err != nil: // the API server is away, and may come back
		return nil
	default:
		err = t.lost(ctx, now)
	}
	if err != nil {
		t.kill(err) // a pod that is gone does not come back
	}
	return err
}

// isDead returns why there will be no connection any more.
func (t *target) isDead() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dead
}

// isRefusal reports whether the API server says that the caller may not.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// isAnswer reports whether err is what the API server says, and not that it is
// away.
func isAnswer(err error) bool {
	return errors.As(err, new(*apierrors.StatusError)) || errors.As(err, new(*PodError))
}

// lost returns why the sandbox no longer has its pod.
func (t *target) lost(ctx context.Context, now *corev1.Pod) error {
	switch {
	case now.UID != t.pod.UID:
		return t.podError(t.pod, ErrGone, "", "another pod has its name")
	case now.DeletionTimestamp == nil && ended(now):
		return t.stale(ctx, now)
	}
	return t.over(now)
}

// kill ends the connection, and makes err the answer to every further call.
func (t *target) kill(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dead == nil {
		t.dead = err
	}
	if t.conn != nil {
		t.conn.Close()
	}
}
