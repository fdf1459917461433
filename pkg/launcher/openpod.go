package launcher

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podagent/podagent/pkg/podapi"
)

// openPod is the pod of an open sandbox, and the way to its agent.
type openPod struct {
	*cluster
	pod  *corev1.Pod // as it was when it was opened
	warm *warmConn   // the connection from before the pod was taken; nil if there is none
	*way
	// lasting says that the connection stays without calls: the agent must get its configuration
	// again as soon as it restarts, because nothing else gives it that.
	lasting bool
}

// way is what is known about the way to a pod's agent, whatever the pod is by now.
type way struct {
	config atomic.Pointer[podapi.Config] // what the agent gets again when it restarts; nil is nothing
	state  *podState
	access access
	addr   podAddress

	mu         sync.Mutex
	dead       error     // why no further connection is possible
	conn       *podConn  // the latest, until it is closed
	otherAgent time.Time // since when another pod's agent answers
}

func (c *cluster) openPod(pod *corev1.Pod) *openPod {
	kept := *pod
	kept.ManagedFields = nil // nobody reads them, for as long as the sandbox is open
	return &openPod{cluster: c, pod: &kept, way: &way{state: &podState{changed: make(chan struct{}), opened: time.Now()}}}
}

// options returns how to reach the pod's agent.
func (o *openPod) options() podapi.DialOptions {
	caller := o.callerOf(o.pod)
	options := podapi.DialOptions{
		Dial: o.dial, Retry: o.retry, Lost: o.whyLost, Config: o.config.Load,
		Identity: &caller, PodUID: string(o.pod.UID), Lasting: o.lasting,
	}
	if o.connectionTo(o.pod) == ByAddress {
		options.Vouch = o.vouch
	}
	return options
}

// dial connects to the agent, as soon as that is possible.
func (o *openPod) dial(ctx context.Context) (net.Conn, error) {
	if err := o.awaitNetwork(ctx); err != nil {
		return nil, err
	}
	if err := o.isDead(); err != nil {
		return nil, err
	}
	conn, err := o.connect(ctx, o.connectionTo(o.pod))
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead != nil {
		conn.Close()
		return nil, o.dead
	}
	o.conn = &podConn{conn, o.way}
	return o.conn, nil
}

// connection returns the latest connection; nil if it is closed.
func (o *openPod) connection() *podConn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn
}

// podConn is a connection to a pod. Once it is closed, nothing keeps what it takes.
type podConn struct {
	net.Conn
	way *way
}

func (c *podConn) Close() error {
	c.way.mu.Lock()
	if c.way.conn == c {
		c.way.conn = nil
	}
	c.way.mu.Unlock()
	return c.Conn.Close()
}

// awaitNetwork waits until the node has made the pod's network. Before that the
// node refuses, and each try takes processor time that the start needs.
func (o *openPod) awaitNetwork(ctx context.Context) error {
	for {
		state, changed := o.state.begin()
		if state == nil || hasNetwork(state) && (state.Status.PodIP != "" || o.connectionTo(state) != ByAddress) {
			o.state.hasNetwork()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// hasNetwork reports whether a port-forward may find the pod's network. Before
// Kubernetes 1.29, nodes do not report when it is ready.
func hasNetwork(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers {
			return c.Status == corev1.ConditionTrue
		}
	}
	return pod.Status.StartTime != nil
}

// retry waits before another try to connect. It returns an error if the pod was
// replaced or deleted, or has ended.
func (o *openPod) retry(ctx context.Context, try int, err error) error {
	if err := o.whyStop(ctx, try, err); err != nil {
		return err
	}
	tries, changed := o.state.failed(try, err)
	wait := time.NewTimer(retryDelay(tries, o.pace()))
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	case <-changed: // the next try may succeed in the new state
	case <-wait.C:
	}
	return nil
}

// retryDelay returns how long to wait after this many tries, the first of which has its own
// delay.
func retryDelay(try int, first time.Duration) time.Duration {
	delay := first
	for range try - 1 {
		delay = min(delay*3/2, max(first, lastRetry))
	}
	return delay
}

// pace returns how soon to try again for the first time. A node that takes long for the pod's
// network starts the agent as slowly. If many pods start at once, each try takes processor time
// from the starts, and the watch tells soon enough when one has started.
func (o *openPod) pace() time.Duration {
	now, pace := o.state.latest(), o.state.networkTime()
	switch {
	case now == nil || isRunning(now):
		return firstRetry
	case o.starting.Load() <= fewStarts:
		pace /= paceShare
	}
	return min(max(pace, firstRetry), manyRetry)
}

// whyStop returns why further tries to connect are pointless; nil if they are not.
// Another pod's agent may answer because this pod has been replaced, or because its
// container is restarting.
func (o *openPod) whyStop(ctx context.Context, try int, err error) error {
	dead := o.isDead()
	other, late := o.isOtherAgent(try, err)
	switch {
	case dead != nil:
		return dead
	case isRefusal(err):
		return o.access.refuse(o.apiError(o.pod.Name, err))
	case o.state.latest() != nil && !other: // the watch judges
		return nil
	}
	if end := o.whyEnded(ctx); end != nil || !late {
		return end
	}
	return err
}

// isOtherAgent reports whether another pod's agent has answered, and whether only
// others have answered for so long that this pod's never will.
func (o *openPod) isOtherAgent(try int, err error) (other, late bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	other = errors.Is(err, podapi.ErrWrongPod)
	switch {
	case !other:
		o.otherAgent = time.Time{}
	case try == 1 || o.otherAgent.IsZero():
		o.otherAgent = time.Now()
	}
	return other, other && time.Since(o.otherAgent) > otherAgentPatience
}

// whyEnded returns why the pod, as the API server has it now, accepts no connection
// any more; nil if it may. Every further call then fails with this error.
func (o *openPod) whyEnded(ctx context.Context) error {
	now, err := o.get(ctx, o.pod.Name)
	switch {
	case apierrors.IsNotFound(err):
		err = o.podError(o.pod, ErrGone, "", "it was deleted")
	case isRefusal(err):
		return o.access.refuse(err)
	case errors.As(err, new(*PodError)): // such as a missing namespace
		return err
	case err != nil: // the API server is away, and may come back
		return nil
	default:
		err = o.lost(ctx, now)
	}
	if err != nil {
		o.kill(err) // a pod that is gone does not come back
	}
	return err
}

// isDead returns why no further connection is possible.
func (o *openPod) isDead() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dead
}

// isRefusal reports whether the API server says that the caller lacks a permission.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// isAnswer reports whether err is an answer of the API server, and not the lack of
// one.
func isAnswer(err error) bool {
	return errors.As(err, new(*apierrors.StatusError)) || errors.As(err, new(*PodError))
}

// lost returns why the sandbox no longer has its pod.
func (o *openPod) lost(ctx context.Context, now *corev1.Pod) error {
	switch {
	case now.UID != o.pod.UID:
		return o.podError(o.pod, ErrGone, "", "another pod has its name")
	case now.DeletionTimestamp == nil && ended(now):
		return o.stale(ctx, now)
	}
	return o.over(now)
}

// kill ends the connection, and makes every further call fail with err.
func (o *openPod) kill(err error) {
	o.mu.Lock()
	conn := o.conn
	if o.dead == nil {
		o.dead = err
	}
	o.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}
