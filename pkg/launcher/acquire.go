package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// launch makes the sandbox of spec or adopts it. What it made and nobody else
// has adopted, it removes if it fails.
func (c *cluster) launch(ctx context.Context, spec Spec, deletes bool) (*Sandbox, error) {
	timeout := cmp.Or(spec.Pod.ReadyTimeout, DefaultReadyTimeout)
	ready, cancel := context.WithTimeoutCause(ctx, timeout, errNotReady)
	defer cancel()
	pod, sandbox, err := c.reach(ready, &spec)
	if err != nil {
		err = c.timedOut(ready, nameOf(spec.ID), timeout, err)
	} else if err = c.furnish(ctx, &spec, pod, sandbox); err != nil {
		err = errors.Join(err, sandbox.Close())
	}
	if err != nil {
		if pod != nil {
			err = errors.Join(err, c.abandon(ctx, pod))
		}
		return nil, err
	}
	if sandbox.Created && deletes {
		sandbox.atClose(func(ctx context.Context) error { return sandbox.discard(ctx, pod) })
	}
	return sandbox, nil
}

// furnish does what a launch does once it has reached the agent, in a pod that it
// created if that is not nil.
func (c *cluster) furnish(ctx context.Context, spec *Spec, created *corev1.Pod, s *Sandbox) error {
	if spec.Git != nil { // which has a timeout of its own
		if err := spec.Git.checkout(ctx, s, c.log); err != nil {
			return err
		}
	}
	if created != nil && ownClaim(created) {
		return c.record(ctx, spec)
	}
	return nil
}

// record notes in the claim how the pod was made, for [Kubernetes.Resume].
func (c *cluster) record(ctx context.Context, spec *Spec) error {
	pod, err := c.podFor(spec)
	if err == nil {
		err = c.recordPod(ctx, pod)
	}
	return err
}

// reach acquires the pod and connects to its agent. The pod that it returns is
// one that it created.
func (c *cluster) reach(ctx context.Context, spec *Spec) (*corev1.Pod, *Sandbox, error) {
	for {
		pod, created, err := c.acquire(ctx, spec)
		if err != nil {
			return nil, nil, err
		}
		sandbox, err := c.enter(ctx, pod, spec, created)
		if created {
			return pod, sandbox, err
		}
		if !errors.Is(err, ErrGone) || ctx.Err() != nil { // else it went while it was adopted
			return nil, sandbox, err
		}
	}
}

// enter connects to the agent of a pod that was acquired, as its owner if that
// is to be exclusive: whoever is not must change nothing in it.
func (c *cluster) enter(ctx context.Context, pod *corev1.Pod, spec *Spec, created bool) (*Sandbox, error) {
	t, attaching := c.target(pod), ctx
	var lease *lease
	if spec.Pod.Exclusive {
		var err error
		if lease, err = t.acquireLease(ctx); err != nil {
			return nil, err
		}
		attaching = lease.keep(ctx)
	}
	sandbox, err := t.attachBeating(attaching, spec, created, cmp.Or(spec.Pod.Heartbeat, DefaultHeartbeat))
	if err != nil {
		if lease != nil {
			err = errors.Join(err, lease.abort(ctx))
		}
		return nil, err
	}
	if lease != nil {
		sandbox.own(lease)
	}
	sandbox.Drift = c.drift(ctx, pod, spec, created)
	return sandbox, nil
}

// errNotReady is the cause of a context whose ready timeout is over.
var errNotReady = errors.New("the ready timeout is over")

// lateError says that a deadline is over, and why the last try to connect failed.
type lateError struct{ cause, last error }

func (e *lateError) Error() string { return fmt.Sprintf("%v: %v", e.cause, e.last) }
func (e *lateError) Unwrap() error { return e.cause }

// timedOut returns err, or what it means if the ready timeout is over. If it is the
// caller's deadline that is over, it adds what the pod waits for. The API's client
// gives up a little before either, when its limiter would have it wait longer.
func (c *cluster) timedOut(ctx context.Context, name string, timeout time.Duration, err error) error {
	if strings.Contains(err.Error(), "would exceed context deadline") { // rate.Limiter's, without a type
		soon, cancel := context.WithTimeout(ctx, askTimeout) // unless that was another's deadline
		defer cancel()
		<-soon.Done()
	}
	switch {
	case errors.As(err, new(*PodError)):
		return err
	case errors.Is(context.Cause(ctx), errNotReady):
		e, _ := c.notReady(ctx, name, fmt.Sprintf("after %v", timeout), askTimeout)
		if late, ok := errors.AsType[*lateError](err); ok {
			e.Message += fmt.Sprintf(": %v", late.last)
		}
		return e
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		if !errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		if e, known := c.notReady(ctx, name, "at the deadline", lateAsk); known {
			err = fmt.Errorf("%w: %w", err, e)
		}
	}
	return err
}

// notReady says of a pod that it is not ready at this time, and what it waits for,
// if the API server says so within a time: then it is known.
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

// acquire returns the pod of spec, ours and not ending, and whether this call
// created it.
func (c *cluster) acquire(ctx context.Context, spec *Spec) (*corev1.Pod, bool, error) {
	for {
		pod, err := c.get(ctx, nameOf(spec.ID))
		switch {
		case apierrors.IsNotFound(err):
			pod, err = c.create(ctx, spec)
			if !apierrors.IsAlreadyExists(err) {
				return pod, err == nil, err
			}
		case err != nil:
			return nil, false, err
		default:
			adopted, err := c.adopt(ctx, pod, spec)
			if adopted || err != nil {
				return pod, false, err
			}
		}
		if err := ctx.Err(); err != nil {
			return nil, false, context.Cause(ctx)
		}
	}
}

func (c *cluster) create(ctx context.Context, spec *Spec) (*corev1.Pod, error) {
	pod, err := c.podFor(spec)
	if err != nil {
		return nil, err
	}
	if !spec.Pod.Workspace.Keep {
		if _, err := c.pausedClaim(ctx, spec.ID); !errors.Is(err, ErrNotFound) {
			return nil, cmp.Or(err, ErrPaused) // its files are not to be missing without a word
		}
	}
	return c.make(ctx, pod, &spec.Pod)
}

// podFor returns the pod that is made from the Spec.
func (c *cluster) podFor(spec *Spec) (*corev1.Pod, error) {
	pod := manifest(spec, c.namespace, c.identity.AuthorizedKey(), time.Now())
	if c.connection == ByAddress {
		listenOnAddress(pod)
	}
	pod, err := patched(pod, spec.Pod.Patch)
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// make makes the pod, and its workspace before if the Spec has that kept.
func (c *cluster) make(ctx context.Context, pod *corev1.Pod, spec *Pod) (*corev1.Pod, error) {
	// It is known what has become of the requests, also if ctx ends meanwhile.
	lasting, cancel := outlive(ctx, createGrace)
	defer cancel()
	if spec.Workspace.Keep {
		if err := c.keepWorkspace(lasting, spec, pod); err != nil {
			return nil, err
		}
	}
	made, err := c.api.CoreV1().Pods(c.namespace).Create(lasting, pod, metav1.CreateOptions{})
	if err != nil && !errors.As(err, new(*apierrors.StatusError)) {
		// The answer was lost, but perhaps not the request.
		return nil, errors.Join(err, c.abandon(ctx, pod))
	}
	if err != nil {
		return nil, errors.Join(c.createError(pod.Name, err), c.dropClaim(lasting, pod, AnnotationAdopted))
	}
	c.log.Info("created pod", "sandbox", pod.Annotations[AnnotationID], "pod", made.Name, "uid", made.UID)
	return made, nil
}

// outlive returns a context that ends some time after ctx.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		pause(lasting, grace)
		cancel()
	})
	return lasting, func() { stop(); cancel() }
}

// adopt makes sure that the pod can be used, and says in its heartbeat that it
// is. It returns false when the pod is gone, and another look is due.
func (c *cluster) adopt(ctx context.Context, pod *corev1.Pod, spec *Spec) (bool, error) {
	if err := c.checkOurs(pod, spec.ID); err != nil {
		return false, err
	}
	if pod.DeletionTimestamp != nil {
		return false, c.awaitGone(ctx, pod)
	}
	if err := c.checkKey(pod); err != nil {
		return false, err
	}
	if ended(pod) {
		if spec.Pod.OnStale != StaleRecreate {
			return false, c.stale(ctx, pod)
		}
		return false, c.remove(ctx, pod)
	}
	if err := c.checkListener(pod); err != nil {
		return false, err
	}
	if drift := c.drift(ctx, pod, spec, false); len(drift) > 0 {
		if spec.Pod.OnDrift == DriftError {
			return false, c.podError(pod, ErrDrift, "", joined(drift))
		}
		c.log.Warn("pod was made otherwise", "sandbox", spec.ID, "pod", pod.Name, "drift", drift)
	}
	err := c.mark(ctx, pod)
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	if err == nil {
		c.log.Info("adopted pod", "sandbox", spec.ID, "pod", pod.Name, "uid", pod.UID)
	}
	return err == nil, err
}

// checkOurs returns an error unless the pod, or claim, is that of the sandbox.
func (c *cluster) checkOurs(pod metav1.Object, id string) error {
	if pod.GetLabels()[LabelManagedBy] != ManagedBy {
		return c.podError(pod, ErrNotOurs, "", fmt.Sprintf("it has no label %s=%s", LabelManagedBy, ManagedBy))
	}
	if got := pod.GetAnnotations()[AnnotationID]; got != id {
		return c.podError(pod, ErrNotOurs, "", fmt.Sprintf("it is that of sandbox %q", got))
	}
	return nil
}

// checkKey returns an error unless the agent lets in our identity.
func (c *cluster) checkKey(pod *corev1.Pod) error {
	ours := c.identity.AuthorizedKey().Fingerprint()
	if theirs := pod.Annotations[AnnotationKey]; theirs != ours {
		return c.podError(pod, ErrOtherKey, "", fmt.Sprintf("it accepts %s, ours is %s", cmp.Or(theirs, "an unknown key"), ours))
	}
	return nil
}

// ended reports whether the agent will never run again in the pod, which may have
// other containers that run on.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.Name == containerName && s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		})
}

// stale returns the error for a pod that has ended.
func (c *cluster) stale(ctx context.Context, pod *corev1.Pod) error {
	e := c.podError(pod, ErrStale, pod.Status.Reason, condition(pod))
	e.Events = c.warnings(ctx, pod)
	return e
}

// abandon removes a pod that this launch created, unless somebody has adopted
// it: whoever comes later finds it gone.
func (c *cluster) abandon(ctx context.Context, created *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		pod, err := c.get(ctx, created.Name)
		// Its time of creation, to the nanosecond, is that of this launch.
		if apierrors.IsNotFound(err) || err == nil && pod.Annotations[AnnotationCreated] != created.Annotations[AnnotationCreated] {
			return c.dropClaim(ctx, created, AnnotationAdopted)
		}
		if err == nil {
			if _, adopted := pod.Annotations[AnnotationAdopted]; adopted {
				return nil
			}
			err = c.delete(ctx, pod, pod.ResourceVersion)
		}
		switch {
		case err == nil:
			return c.dropClaim(ctx, created, AnnotationAdopted)
		case errors.As(err, new(*PodError)), ctx.Err() != nil:
			return err
		case !apierrors.IsConflict(err): // the API server is away; else the pod has changed meanwhile
			pause(ctx, apiRetry)
		}
	}
}
