package launcher

import (
	"cmp"
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// settle does to a sandbox whose agent answers what its Spec asks for beyond:
// it becomes its owner, says that it is needed, and gets its source.
func (c *cluster) settle(ctx context.Context, s *Sandbox, spec *Spec) error {
	err := c.own(ctx, s, spec)
	if err == nil && spec.Git != nil {
		err = spec.Git.checkout(ctx, s, agentProgram, c.log)
	}
	if err != nil {
		err = errors.Join(err, s.Close())
	}
	return err
}

// own takes the lease if the sandbox is to be exclusive, and begins the
// heartbeat.
func (c *cluster) own(ctx context.Context, s *Sandbox, spec *Spec) error {
	if spec.Pod.Exclusive {
		if err := c.takeLease(ctx, s); err != nil {
			return err
		}
	}
	if interval := cmp.Or(spec.Pod.Heartbeat, DefaultHeartbeat); interval != HeartbeatOff {
		s.keepBeating(interval)
	}
	return nil
}

// atClose adds to what Close does. What was added last is done first, and each
// has cleanupTimeout.
func (s *Sandbox) atClose(do func(ctx context.Context) error) {
	before := s.onClose
	s.onClose = func() error {
		ctx, cancel := context.WithTimeout(s.calm(), cleanupTimeout)
		defer cancel()
		err := do(ctx)
		if before != nil {
			err = errors.Join(err, before())
		}
		return err
	}
}

// calm returns a context that does not end.
func (s *Sandbox) calm() context.Context { return s.target.logged(context.Background()) }

// background runs a task until the sandbox is closed, which waits for its end.
func (s *Sandbox) background(task func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(s.calm())
	var running sync.WaitGroup
	running.Go(func() { task(ctx) })
	s.atClose(func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
}

// open connects to the pod of a sandbox that there is.
func (c *cluster) open(ctx context.Context, id string) (*Sandbox, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, DefaultReadyTimeout, errNotReady)
	defer cancel()
	pod, err := c.find(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := c.target(pod).attach(ctx, &Spec{}, false)
	if err != nil {
		return nil, c.timedOut(ctx, pod.Name, DefaultReadyTimeout, err)
	}
	s.keepBeating(DefaultHeartbeat)
	return s, nil
}

// find returns the pod of the sandbox, if it can be called.
func (c *cluster) find(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := c.lookup(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case pod.DeletionTimestamp != nil:
		return nil, c.podError(pod, ErrGone, "", "it is being deleted")
	case ended(pod):
		return nil, c.stale(ctx, pod)
	}
	return pod, c.checkKey(pod)
}
