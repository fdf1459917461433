package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/launchtrace"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// launch creates or adopts the sandbox of spec. If it fails, it removes what it
// created, unless another launch has adopted it.
func (c *cluster) launch(ctx context.Context, spec Spec, deletes bool) (*Sandbox, error) {
	timeout := cmp.Or(spec.Take.ReadyTimeout, DefaultReadyTimeout)
	ready, cancel := context.WithTimeoutCause(ctx, timeout, errNotReady)
	defer cancel()
	made, sandbox, err := c.reach(ready, &spec)
	if err != nil {
		name := podmeta.NameOf(spec.ID)
		if made != nil {
			name = made.pod.Name
		}
		err = c.timedOut(ready, name, timeout, err)
	} else if err = c.finishLaunch(ctx, &spec, made, sandbox); err != nil {
		err = errors.Join(err, sandbox.Close())
	}
	if err != nil {
		if made != nil {
			err = errors.Join(err, c.abandon(ctx, made.pod))
		}
		return nil, err
	}
	if sandbox.Created && deletes {
		sandbox.undo = func() error {
			return sandbox.cleanUp(func(ctx context.Context) error { return sandbox.discardMade(ctx, made.pod) })
		}
	}
	if ready := launchtrace.FromContext(ctx).Ready; ready != nil {
		ready()
	}
	return sandbox, nil
}

// finishLaunch checks out the source once the agent answers. If this launch created
// the pod (made is not nil) for a claim that was there, it notes in the claim how. A
// claim that it created has had that note from the beginning. In one that was there,
// the note of the last pod that worked stays until this one does.
func (c *cluster) finishLaunch(ctx context.Context, spec *Spec, made *acquired, s *Sandbox) error {
	if spec.Git != nil { // it has its own timeout
		if err := spec.Git.checkout(ctx, s, c.log); err != nil {
			return err
		}
	}
	if made == nil || !ownClaim(made.manifest) {
		return nil
	}
	taken, err := time.Parse(time.RFC3339Nano, made.manifest.Annotations[podmeta.AnnotationResumed])
	if err != nil { // it has none: the claim is new
		return nil
	}
	return c.notePod(ctx, made.manifest, taken.UnixNano())
}

// reach acquires the pod and connects to its agent. It returns made only if it
// created the pod, or took it out of a pool.
func (c *cluster) reach(ctx context.Context, spec *Spec) (made *acquired, s *Sandbox, err error) {
	cold, unusable := "", 0
	for {
		a, err := c.acquire(ctx, spec, cold)
		if err != nil {
			return nil, nil, err
		}
		spec.isNew = false
		a.trace(ctx)
		if a.start.Warm {
			sandbox, err := c.enterWarm(ctx, a, spec)
			if err == nil || ctx.Err() != nil {
				return a, sandbox, err
			}
			c.log.Warn("cannot use a pod of the pool", "sandbox", spec.ID, "pod", a.pod.Name, "error", err)
			if giveUpErr := c.giveUp(ctx, a.pod); giveUpErr != nil {
				return nil, nil, errors.Join(err, giveUpErr)
			}
			if unusable++; unusable >= warmTries {
				cold = unusableWhy(unusable, err)
			}
			continue
		}
		sandbox, err := c.enter(ctx, a, spec)
		if a.created() {
			return a, sandbox, err
		}
		if !errors.Is(err, ErrGone) || ctx.Err() != nil { // ErrGone: the pod vanished during its adoption
			return nil, sandbox, err
		}
	}
}

// giveUp abandons a pod that was taken out of a pool, so that the id can have another.
func (c *cluster) giveUp(ctx context.Context, pod *corev1.Pod) error {
	if err := c.abandon(ctx, pod); err != nil {
		return err
	}
	return c.dropHoldingOf(ctx, pod)
}

// enterWarm enters a pod that was taken out of a pool. It counts only if it stays.
func (c *cluster) enterWarm(ctx context.Context, a *acquired, spec *Spec) (*Sandbox, error) {
	soon, cancel := context.WithTimeout(ctx, warmPatience)
	defer cancel()
	stays := make(chan error, 1)
	go func() { stays <- c.checkTaken(soon, a.pod) }()
	s, err := c.enter(soon, a, spec)
	if goes := <-stays; err == nil && goes != nil {
		return nil, errors.Join(goes, s.Close())
	}
	return s, err
}

// enter connects to the agent of an acquired pod. If the Spec is exclusive, it
// takes the lease first, so that a caller that does not get it changes nothing in
// the pod.
func (c *cluster) enter(ctx context.Context, a *acquired, spec *Spec) (*Sandbox, error) {
	o := c.openPod(a.pod)
	if a.conn != nil {
		o = a.conn.taken(a.pod)
	}
	attach := o.attachBeating
	if spec.Take.Exclusive {
		attach = o.attachOwning
	}
	sandbox, err := attach(ctx, spec, a.created())
	if err != nil {
		if a.conn != nil {
			a.conn.close()
		}
		return nil, err
	}
	sandbox.Drift, sandbox.Start = a.drift, a.start
	if answered := launchtrace.FromContext(ctx).Answered; answered != nil {
		answered()
	}
	return sandbox, nil
}

// errNotReady is the cause of a context whose ready timeout is over.
var errNotReady = errors.New("the ready timeout is over")

// lateError says that a deadline is over, and why the last try to connect failed.
type lateError struct{ cause, last error }

func (e *lateError) Error() string { return fmt.Sprintf("%v: %v", e.cause, e.last) }
func (e *lateError) Unwrap() error { return e.cause }

// timedOut returns err, or its meaning if the ready timeout is over. If instead the
// caller's deadline is over, it adds what the pod waits for. The API's client gives
// up a little before either deadline if its rate limiter would make it wait longer.
func (c *cluster) timedOut(ctx context.Context, name string, timeout time.Duration, err error) error {
	if strings.Contains(err.Error(), "would exceed context deadline") { // rate.Limiter's, without a type
		soon, cancel := context.WithTimeout(ctx, queryTimeout) // unless it was another context's deadline
		defer cancel()
		<-soon.Done()
	}
	switch {
	case errors.As(err, new(*PodError)):
		return err
	case errors.Is(context.Cause(ctx), errNotReady):
		e, _ := c.notReady(ctx, name, fmt.Sprintf("after %v", timeout), queryTimeout)
		if late, ok := errors.AsType[*lateError](err); ok {
			e.Message += fmt.Sprintf(": %v", late.last)
		}
		return e
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if !errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		if e, known := c.notReady(ctx, name, "at the deadline", lateQuery); known {
			err = fmt.Errorf("%w: %w", err, e)
		}
	}
	return err
}

// notReady returns an error that the pod is not ready, and what it waits for. It is
// known only if the API server answers within the given time.
func (c *cluster) notReady(ctx context.Context, name, when string, within time.Duration) (e *PodError, known bool) {
	e = &PodError{Pod: c.namespace + "/" + name, Class: ErrNotReady, Message: when}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	pod, err := c.get(ctx, name)
	if err != nil {
		return e, false
	}
	if pod.DeletionTimestamp != nil {
		e.Class = ErrGone
		e.Message += " it is still being deleted"
	}
	e.Message += ": " + progress(pod)
	e.Events = c.warnings(ctx, pod)
	return e, true
}
