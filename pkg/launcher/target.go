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

	mu      sync.Mutex
	dead    error         // why there will be no connection any more
	conn    net.Conn      // the latest
	state   *corev1.Pod   // the latest that a watch has seen; nil if there is no watch
	changed chan struct{} // closed when state changes
	tried   chan struct{} // what changed was when the latest try to connect began
	tries   int           // how many failed since then
	allowed bool          // whether the API server has let the caller connect
	refused time.Time     // since when it has not any more
	wrong   time.Time     // since when another pod's agent answers
	ip      string        // the pod's latest that was used
	// certificate is the agent's, as it was last shown by the API server, and
	// unvouched says that the latest at its address is not known to be the same.
	certificate []byte
	unvouched   bool
	failure     error // why the latest try to connect failed
}

func (c *cluster) target(pod *corev1.Pod) *target {
	return &target{cluster: c, pod: pod, changed: make(chan struct{})}
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
		state, changed := t.begin()
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

// retry waits before another try to connect. It ends the tries when the pod
// is not what it was.
func (t *target) retry(ctx context.Context, try int, err error) error {
	if err := t.verdict(ctx, try, err); err != nil {
		return err
	}
	tries, changed := t.failed(try, err)
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

// verdict returns why connecting to the pod is of no use, nil if it may be. Another
// pod's agent may answer because this pod has been replaced, or because its
// container starts again.
func (t *target) verdict(ctx context.Context, try int, err error) error {
	t.mu.Lock()
	dead, watched := t.dead, t.state != nil
	t.mu.Unlock()
	wrong, late := t.isWrong(try, err)
	switch {
	case dead != nil:
		return dead
	case isRefusal(err):
		return t.refusal(t.apiError(t.pod.Name, err))
	case watched && !wrong: // the watch judges
		return nil
	}
	if end := t.end(ctx); end != nil || !late {
		return end
	}
	return err
}

// isWrong reports whether another pod's agent has answered, and whether all have
// been others for long enough that none of this pod's will.
func (t *target) isWrong(try int, err error) (wrong, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	wrong = errors.Is(err, podapi.ErrWrongPod)
	switch {
	case !wrong:
		t.wrong = time.Time{}
	case try == 1 || t.wrong.IsZero():
		t.wrong = time.Now()
	}
	return wrong, wrong && time.Since(t.wrong) > strangerPatience
}

// end returns why the pod, as it is now, will not be connected to any more; nil if
// it may be.
func (t *target) end(ctx context.Context) error {
	now, err := t.get(ctx, t.pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		err = t.podError(t.pod, ErrGone, "", "it was deleted")
	case isRefusal(err):
		return t.refusal(err)
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

// refusal returns err, which says that a permission is missing, or nil as long
// as that may be the API server's start.
func (t *target) refusal(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused.IsZero() {
		t.refused = time.Now()
	}
	if t.allowed && time.Since(t.refused) < refusalPatience {
		return nil
	}
	return err
}

// allow notes that the API server has let the caller connect.
func (t *target) allow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allowed, t.refused = true, time.Time{}
}

// lost returns why the pod, as it is now, is the sandbox's no more.
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

// begin begins a try to connect. It returns the latest state that the watch has
// seen, nil if there is no watch, and what is closed when there is another.
func (t *target) begin() (*corev1.Pod, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tried != t.changed {
		t.tried, t.tries = t.changed, 0
	}
	return t.state, t.changed
}

// failed returns how many tries have failed in the state in which the latest
// began, at most try, and what is closed when there is another state: it may
// have come while the try was made.
func (t *target) failed(try int, err error) (int, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failure = err
	t.tries = min(t.tries+1, try)
	return t.tries, t.tried
}

// saw notes a state that the watch has seen; nil ends the watch.
func (t *target) saw(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state = pod
	close(t.changed)
	t.changed = make(chan struct{})
}
