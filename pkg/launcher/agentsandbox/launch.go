package agentsandbox

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	for {
		f, made, err := c.acquire(ready, &spec, isNew)
		if err == nil {
			opened := spec
			if made && deletes {
				opened.OnClose = launcher.CloseDelete
			}
			var s *launcher.Sandbox
			if s, err = c.enter(ready, f, opened); err == nil {
				s.Created = made
				s.Start = startOf(f, &spec, made)
				return s, nil
			}
		}
		if made {
			return nil, errors.Join(c.late(ready, f, err), c.abandon(ctx, f))
		}
		if !errors.Is(err, errAgain) && !errors.Is(err, launcher.ErrGone) || ready.Err() != nil {
			return nil, c.late(ready, f, err)
		}
		isNew = false
		sleep(ready, againPause)
	}
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
		if f, err = c.findOwn(ctx, spec.ID); err != nil {
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
		return launcher.ErrPaused // a sandbox without its files would be a surprise
	}
	if err := c.annotate(ctx, f, podmeta.AnnotationAdopted); err != nil {
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

// create makes the objects of a sandbox. The error is errAgain if another launch was first.
func (c *cluster) create(ctx context.Context, spec *launcher.Spec, isNew bool) (*found, error) {
	f := &found{id: spec.ID}
	own := spec.Take.Pool == "" || len(spec.Pod.Volumes) > 0 || spec.Pod.Workspace.Keep
	var err error
	if own {
		f.sandbox, err = c.createSandbox(ctx, spec, isNew)
	} else {
		f.claim, err = c.createClaim(ctx, spec)
	}
	if apierrors.IsAlreadyExists(err) {
		return nil, errAgain
	}
	if err != nil {
		return nil, createError(c.namespace, spec.ID, err)
	}
	if isNew { // a Sandbox of which nobody knows the id has no other beside it
		return f, nil
	}
	if err := c.settle(ctx, f); err != nil {
		return nil, errors.Join(err, c.remove(ctx, f))
	}
	return f, nil
}

// settle returns errAgain if an object that was just made must go, because another launch has
// made one of the other kind for the same id: see countPatience.
func (c *cluster) settle(ctx context.Context, made *found) error {
	if made.claim != nil {
		f, err := c.findOwn(ctx, made.id)
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
		err = c.annotate(ctx, made, podmeta.AnnotationCounts)
	}
	if errors.Is(err, launcher.ErrGone) {
		return errAgain
	}
	return err
}

// objectMeta returns the metadata of the claim or Sandbox that stands for a new sandbox.
func (c *cluster) objectMeta(ctx context.Context, spec *launcher.Spec, isClaim bool) (metav1.ObjectMeta, error) {
	meta := metav1.ObjectMeta{Name: podmeta.NameOf(spec.ID), Namespace: c.namespace, Labels: map[string]string{}}
	maps.Copy(meta.Labels, spec.Pod.Labels)
	meta.Labels[podmeta.LabelManagedBy] = podmeta.ManagedBy
	meta.Labels[podmeta.LabelID] = podmeta.LabelOf(spec.ID)
	assignment, err := c.k.Assignment(ctx, placeOf(isClaim, &meta, spec.ID), *spec)
	meta.Annotations = map[string]string{
		podmeta.AnnotationID:         spec.ID,
		podmeta.AnnotationCreated:    now(),
		podmeta.AnnotationAssignment: assignment,
	}
	return meta, err
}

func (c *cluster) createClaim(ctx context.Context, spec *launcher.Spec) (*claim, error) {
	meta, err := c.objectMeta(ctx, spec, true)
	if err != nil {
		return nil, err
	}
	return c.claims().create(ctx, &claim{ObjectMeta: meta, Spec: claimSpec{
		WarmPoolRef: nameRef{spec.Take.Pool},
		Lifecycle:   claimLifecycle{shutdownTime(spec), policyDelete},
	}})
}

func (c *cluster) createSandbox(ctx context.Context, spec *launcher.Spec, isNew bool) (*sandbox, error) {
	blueprint, err := c.blueprint(ctx, spec)
	if err != nil {
		return nil, err
	}
	meta, err := c.objectMeta(ctx, spec, false)
	if err != nil {
		return nil, err
	}
	if isNew {
		meta.Annotations[podmeta.AnnotationCounts] = now()
	}
	return c.sandboxes().create(ctx, &sandbox{ObjectMeta: meta, Spec: sandboxSpec{
		blueprint: blueprint, ShutdownTime: shutdownTime(spec), ShutdownPolicy: policyDelete,
	}})
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
	switch {
	case err != nil:
		return nil, err
	case f.main().GetDeletionTimestamp() != nil:
		return nil, podError(c.namespace, f.main().GetName(), launcher.ErrGone, "", "it is being deleted")
	case f.isPaused():
		return nil, launcher.ErrPaused
	case !f.foreign:
		if err := c.annotate(ctx, f, podmeta.AnnotationAdopted); err != nil {
			return nil, err
		}
	}
	return c.reenter(ctx, f)
}

// reenter opens the sandbox without a Spec.
func (c *cluster) reenter(ctx context.Context, f *found) (*launcher.Sandbox, error) {
	ready, cancel := context.WithTimeoutCause(ctx, launcher.DefaultReadyTimeout, errNotReady)
	defer cancel()
	s, err := c.enter(ready, f, launcher.Spec{ID: f.id, OnClose: launcher.CloseKeep})
	if err != nil {
		return nil, c.late(ready, f, err)
	}
	return s, nil
}

// enter waits for the pod of a sandbox, and connects to its agent.
func (c *cluster) enter(ctx context.Context, f *found, spec launcher.Spec) (*launcher.Sandbox, error) {
	pod, err := c.awaitPod(ctx, f)
	if err != nil {
		return nil, err
	}
	assignment := f.main().GetAnnotations()[podmeta.AnnotationAssignment]
	if f.foreign && assignment == "" {
		if assignment, err = c.k.Assignment(ctx, f.place(), launcher.Spec{}); err != nil {
			return nil, err
		}
	}
	s, err := c.k.Enter(ctx, c.Launcher, pod, f.place(), assignment, spec)
	if err != nil {
		return nil, err
	}
	s.Created = false
	return s, nil
}
