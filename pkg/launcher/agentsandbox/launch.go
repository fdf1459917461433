package agentsandbox

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// errAgain says that what was found has changed, so that it is to be looked for again.
var errAgain = errors.New("it has changed meanwhile")

// againPause lets a launch that met another give way.
const againPause = 100 * time.Millisecond

// launch finds or makes the sandbox, and opens it. If it fails, it removes what it made, unless
// another launch has adopted that.
func (c *cluster) launch(ctx context.Context, spec launcher.Spec, isNew, deletes bool) (*launcher.Sandbox, error) {
	spec.OnClose = launcher.CloseKeep
	ready, cancel := context.WithTimeoutCause(ctx, cmp.Or(spec.Take.ReadyTimeout, launcher.DefaultReadyTimeout), errNotReady)
	defer cancel()
	for ; ; isNew = false {
		s, err := c.try(ctx, ready, spec, isNew, deletes)
		if err == nil || !mayTryAgain(err) || ready.Err() != nil {
			return s, err
		}
		delay.For(ready, againPause)
	}
}

// mayTryAgain reports whether a launch met another call that made, replaced or removed something.
func mayTryAgain(err error) bool {
	return errors.Is(err, errAgain) || errors.Is(err, launcher.ErrGone)
}

// try is one try of a launch. Until the agent answers, it is bounded by ready.
func (c *cluster) try(ctx, ready context.Context, spec launcher.Spec, isNew, deletes bool) (*launcher.Sandbox, error) {
	f, made, err := c.acquire(ready, &spec, isNew)
	if err != nil {
		return nil, c.notReady(ready, podmeta.NameOf(spec.ID), f, err)
	}
	if made && deletes {
		spec.OnClose = launcher.CloseDelete
	}
	s, err := c.enter(ctx, ready, f, spec)
	switch {
	case err == nil:
		s.Created, s.Start = made, startOf(f, &spec, made)
	case made:
		err = errors.Join(err, c.abandon(ctx, f))
	}
	return s, err
}

// startOf says where the pod of a sandbox that was just made comes from.
func startOf(f *found, spec *launcher.Spec, made bool) (start launcher.Start) {
	switch {
	case !made || spec.Take.Pool == "":
	case f.claim == nil:
		start.Cold = "its volumes, or the claim of its workspace, are its own"
	case f.sandbox.Labels[labelLaunchType] == "warm":
		start.Warm = true
	default:
		start.Cold = "the warm pool had no Sandbox that was ready"
	}
	return start
}

// acquire finds the sandbox, or makes it. There is nothing of an id that is new.
func (c *cluster) acquire(ctx context.Context, spec *launcher.Spec, isNew bool) (f *found, made bool, err error) {
	if !isNew {
		if f, err = c.findOwn(ctx, spec.ID, true); err != nil {
			return nil, false, err
		}
	}
	if f == nil {
		f, err = c.create(ctx, spec, isNew)
		return f, err == nil, err
	}
	return f, false, c.adopt(ctx, f, spec)
}

// adopt marks a sandbox that is there as used, and wakes it if it is paused.
func (c *cluster) adopt(ctx context.Context, f *found, spec *launcher.Spec) error {
	switch {
	case f.main().GetDeletionTimestamp() != nil:
		return cmp.Or(c.awaitGone(ctx, f), errAgain)
	case f.isPaused() && !spec.Pod.Workspace.Keep:
		return launcher.ErrPaused // as with Kubernetes: only a launch that keeps the workspace wakes it
	}
	if err := c.annotate(ctx, f, podmeta.AnnotationAdopted, now()); err != nil {
		return err
	}
	if f.isPaused() {
		return c.setMode(ctx, f, modeRunning)
	}
	if spec.Take.OnStale == launcher.StaleRecreate {
		return c.dropEnded(ctx, f)
	}
	return nil
}

// create makes the object of a sandbox. The error is errAgain if another launch was first.
func (c *cluster) create(ctx context.Context, spec *launcher.Spec, isNew bool) (*found, error) {
	f, err := c.describe(ctx, spec, isNew)
	if err != nil {
		return nil, err
	}
	// The request outlives ctx, so that its result is known.
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	made := *f
	if f.claim != nil {
		made.claim, err = c.claims().create(lasting, f.claim)
	} else {
		made.sandbox, err = c.sandboxes().create(lasting, f.sandbox)
	}
	switch {
	case apierrors.IsAlreadyExists(err) && !isNew:
		return nil, errAgain
	case err != nil && !errors.As(err, new(apierrors.APIStatus)): // its answer was lost
		return nil, errors.Join(err, c.abandon(ctx, f))
	case err != nil:
		return nil, createError(c.namespace, f.main().GetName(), err)
	case isNew: // nobody knows the id, so nobody has made an object of the other kind
		err = context.Cause(ctx)
	default:
		err = c.settle(ctx, &made)
	}
	if err != nil {
		return nil, errors.Join(err, c.abandon(ctx, &made))
	}
	return &made, nil
}

// describe returns the object of a new sandbox, as it is to be made.
func (c *cluster) describe(ctx context.Context, spec *launcher.Spec, isNew bool) (*found, error) {
	f := &found{id: spec.ID}
	if spec.Take.Pool != "" && len(spec.Pod.Volumes) == 0 && !spec.Pod.Workspace.Keep {
		f.claim = &claim{Spec: claimSpec{
			WarmPoolRef: nameRef{spec.Take.Pool},
			Lifecycle:   claimLifecycle{shutdownTime(spec), policyDelete},
		}}
		return f, c.mark(ctx, f, &f.claim.ObjectMeta, spec)
	}
	made, err := c.blueprint(ctx, spec)
	if err != nil {
		return nil, err
	}
	f.sandbox = &sandbox{Spec: sandboxSpec{blueprint: made, ShutdownTime: shutdownTime(spec), ShutdownPolicy: policyDelete}}
	err = c.mark(ctx, f, &f.sandbox.ObjectMeta, spec)
	if isNew {
		f.sandbox.Annotations[podmeta.AnnotationCounts] = now()
	}
	return f, err
}

// mark makes metadata that of the object of a sandbox.
func (c *cluster) mark(ctx context.Context, f *found, meta *metav1.ObjectMeta, spec *launcher.Spec) error {
	meta.Name, meta.Namespace, meta.Labels = podmeta.NameOf(spec.ID), c.namespace, map[string]string{}
	maps.Copy(meta.Labels, spec.Pod.Labels)
	meta.Labels[podmeta.LabelManagedBy] = podmeta.ManagedBy
	meta.Labels[podmeta.LabelID] = podmeta.LabelOf(spec.ID)
	assignment, err := c.k.Assignment(ctx, f.subject(), *spec)
	meta.Annotations = map[string]string{
		podmeta.AnnotationID:         spec.ID,
		podmeta.AnnotationCreated:    now(),
		podmeta.AnnotationAssignment: assignment,
	}
	podmeta.SetLabels(meta.Annotations, spec.Labels)
	if spec.Take.ReadyTimeout != 0 {
		meta.Annotations[podmeta.AnnotationReadyTimeout] = spec.Take.ReadyTimeout.String()
	}
	return err
}

// readyTimeout returns how long the launch that made the sandbox waited at most.
func (f *found) readyTimeout() time.Duration {
	if d, err := time.ParseDuration(f.main().GetAnnotations()[podmeta.AnnotationReadyTimeout]); err == nil && d > 0 {
		return d
	}
	return launcher.DefaultReadyTimeout
}

// labels returns the labels of a claim that are its sandbox's. Those of a Sandbox are in its
// template.
func (f *found) labels() map[string]string {
	if f.claim == nil {
		return nil
	}
	return maps.Collect(func(yield func(name, value string) bool) {
		for name, value := range f.claim.Labels {
			if name != podmeta.LabelManagedBy && !strings.HasPrefix(name, podmeta.Prefix) && !isReserved(name) && !yield(name, value) {
				return
			}
		}
	})
}

// settle returns errAgain if an object that was just made must go, because another launch has
// made one of the other kind for the same id: see countPatience.
func (c *cluster) settle(ctx context.Context, made *found) error {
	if made.claim != nil {
		f, err := c.findOwn(ctx, made.id, true)
		if err == nil && (f == nil || f.claim == nil || f.claim.UID != made.claim.UID) {
			err = errAgain
		}
		return err
	}
	other, err := ifThere(c.claims().get(ctx, made.sandbox.Name))
	if other != nil {
		return errAgain
	}
	if err == nil {
		err = c.annotate(ctx, made, podmeta.AnnotationCounts, now())
	}
	if errors.Is(err, launcher.ErrGone) {
		return errAgain
	}
	return err
}

// shutdownTime returns when the controller is to end a sandbox that is made now, whatever becomes
// of the orchestrators.
func shutdownTime(spec *launcher.Spec) *metav1.Time {
	lasts := cmp.Or(spec.Pod.Lifetime, spec.Pod.ActiveDeadline, launcher.DefaultActiveDeadline)
	return &metav1.Time{Time: time.Now().Add(lasts)}
}

// open opens a sandbox that is there.
func (c *cluster) open(ctx context.Context, id string) (*launcher.Sandbox, error) {
	f, err := c.find(ctx, id)
	return c.openFound(ctx, f, err)
}

// openForeign opens a Sandbox that another client has made.
func (c *cluster) openForeign(ctx context.Context, name, uid string, mine func(labels map[string]string) bool) (*launcher.Sandbox, error) {
	f, err := c.findForeignSandbox(ctx, name, uid, mine)
	return c.openFound(ctx, f, err)
}

func (c *cluster) openFound(ctx context.Context, f *found, err error) (*launcher.Sandbox, error) {
	if err == nil && f.isPaused() {
		err = launcher.ErrPaused
	}
	if err != nil {
		return nil, err
	}
	return c.reenter(ctx, f)
}

// reenter marks a sandbox as used, and opens it without a Spec.
func (c *cluster) reenter(ctx context.Context, f *found) (*launcher.Sandbox, error) {
	if f.main().GetDeletionTimestamp() != nil {
		return nil, podError(c.namespace, f.main().GetName(), launcher.ErrGone, "", "it is being deleted")
	}
	if !f.foreign {
		if err := c.annotate(ctx, f, podmeta.AnnotationAdopted, now()); err != nil {
			return nil, err
		}
	}
	ready, cancel := context.WithTimeoutCause(ctx, f.readyTimeout(), errNotReady)
	defer cancel()
	spec := launcher.Spec{ID: f.id, OnClose: launcher.CloseKeep}
	spec.Pod.Labels = f.labels()
	return c.enter(ctx, ready, f, spec)
}

// enter waits for the pod of a sandbox, and connects to its agent, until ready ends. A checkout has
// its own time.
func (c *cluster) enter(ctx, ready context.Context, f *found, spec launcher.Spec) (*launcher.Sandbox, error) {
	pod, err := c.awaitPod(ready, f)
	if err != nil {
		return nil, c.notReady(ready, f.main().GetName(), f, err)
	}
	assignment := f.main().GetAnnotations()[podmeta.AnnotationAssignment]
	if f.foreign {
		if assignment, err = c.k.Assignment(ctx, f.subject(), launcher.Spec{}); err != nil {
			return nil, err
		}
	}
	if deadline, ok := ready.Deadline(); ok {
		spec.Take.ReadyTimeout = max(time.Until(deadline), time.Millisecond)
	}
	spec.Labels = nil // its object has them
	s, err := c.k.Enter(ctx, pod, f.subject(), assignment, spec, func(ctx context.Context, own bool) error {
		if own {
			return c.removeOwn(ctx, f)
		}
		return c.owner.Terminate(ctx, f.id)
	})
	if err != nil {
		return nil, err
	}
	s.Created = false
	return s, nil
}

// removeOwn removes the object that a launch made, and no later one of its name.
func (c *cluster) removeOwn(ctx context.Context, f *found) error {
	err := c.look(ctx, f)
	if err == nil {
		err = c.remove(ctx, f)
	}
	if errors.Is(err, launcher.ErrGone) {
		return nil
	}
	return err
}
