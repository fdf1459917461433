package agentsandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// cleanupTimeout bounds what is removed after a caller's context has ended, and how often that
// is looked at.
const (
	cleanupTimeout = 30 * time.Second
	gonePoll       = 50 * time.Millisecond
)

// isPaused reports whether the Sandbox is, or is being, suspended.
func (f *found) isPaused() bool {
	return f.sandbox != nil && f.sandbox.Spec.OperatingMode == modeSuspended
}

// Pause removes the sandbox's pod, and returns when it is gone. The files in its workdir stay, if
// its Sandbox has a claim for them: a Spec with Workspace.Keep, or a template that has one.
// Otherwise it changes nothing and returns launcher.ErrNotKept.
func (l *Launcher) Pause(ctx context.Context, id string) error {
	c, err := l.cluster(ctx)
	if err == nil {
		err = c.pause(ctx, id)
	}
	return wrap("pausing", id, err)
}

func (c *cluster) pause(ctx context.Context, id string) error {
	f, err := c.findOurs(ctx, id)
	switch {
	case err != nil:
		return err
	case f.sandbox == nil:
		return podError(c.namespace, f.main().GetName(), launcher.ErrNotReady, "", "its claim has no Sandbox yet")
	case len(f.sandbox.Spec.VolumeClaimTemplates) == 0:
		return podError(c.namespace, f.sandbox.Name, launcher.ErrNotKept, "", "its Sandbox has no volumeClaimTemplates")
	}
	// The launch that made it must not remove it now if it fails.
	if err := c.annotate(ctx, f, podmeta.AnnotationAdopted, now()); err != nil {
		return err
	}
	if err := c.setMode(ctx, f, modeSuspended); err != nil {
		return err
	}
	return c.awaitNoPod(ctx, f)
}

// Resume opens a sandbox that is paused, or whose pod has ended, in a new pod with the files in its
// workdir. Without a claim for them the error is launcher.ErrStale. A sandbox that runs is opened as
// by Open.
func (l *Launcher) Resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	c, err := l.cluster(ctx)
	if err != nil {
		return nil, wrap("resuming", id, err)
	}
	s, err := c.resume(ctx, id)
	return s, wrap("resuming", id, err)
}

func (c *cluster) resume(ctx context.Context, id string) (*launcher.Sandbox, error) {
	f, err := c.findOurs(ctx, id)
	if err != nil {
		return nil, err
	}
	switch {
	case f.isPaused():
		err = c.setMode(ctx, f, modeRunning)
	case f.sandbox != nil && len(f.sandbox.Spec.VolumeClaimTemplates) > 0:
		err = c.dropEnded(ctx, f)
	}
	if err != nil {
		return nil, err
	}
	return c.reenter(ctx, f)
}

// Extend lets the sandbox live for at least d from now, and returns when it ends, which is never
// sooner than before.
func (l *Launcher) Extend(ctx context.Context, id string, d time.Duration) (time.Time, error) {
	c, err := l.cluster(ctx)
	var ends time.Time
	if err == nil {
		ends, err = c.extend(ctx, id, d)
	}
	return ends, wrap("extending", id, err)
}

func (c *cluster) extend(ctx context.Context, id string, d time.Duration) (time.Time, error) {
	if d <= 0 {
		return time.Time{}, &launcher.SpecError{Field: "Pod.Lifetime", Msg: fmt.Sprintf("cannot be extended by %v", d)}
	}
	return c.setShutdown(ctx, id, func() time.Time { return time.Now().Add(d) }, false)
}

// Expire makes the sandbox end at a time, also sooner than planned, and returns that time, in whole
// seconds.
func (l *Launcher) Expire(ctx context.Context, id string, at time.Time) (time.Time, error) {
	c, err := l.cluster(ctx)
	if err == nil && !at.After(time.Now()) {
		err = &launcher.SpecError{Field: "Pod.Lifetime", Msg: fmt.Sprintf("cannot end at %s, which has passed", at.UTC().Format(time.RFC3339))}
	}
	var ends time.Time
	if err == nil {
		ends, err = c.setShutdown(ctx, id, func() time.Time { return at }, true)
	}
	return ends, wrap("setting the end of", id, err)
}

// setShutdown makes the sandbox end at a time, which may come before the present one if it may be
// sooner, and returns when it ends.
func (c *cluster) setShutdown(ctx context.Context, id string, at func() time.Time, sooner bool) (time.Time, error) {
	for {
		f, err := c.findOurs(ctx, id)
		if err != nil {
			return time.Time{}, err
		}
		now := f.shutdownTime()
		if now == nil {
			return time.Time{}, podError(c.namespace, f.main().GetName(), launcher.ErrNoLifetime, "", "its object has no shutdownTime")
		}
		ends := at().Add(time.Second - time.Nanosecond).Truncate(time.Second) // the object has whole seconds
		if ends.Equal(now.Time) || !sooner && ends.Before(now.Time) {
			return now.Time, nil
		}
		spec := map[string]any{"shutdownTime": ends.UTC().Format(time.RFC3339)}
		if f.claim != nil {
			spec = map[string]any{"lifecycle": spec}
		}
		err = c.patchMain(ctx, f, map[string]any{"metadata": preconditions(f.main(), f.main().GetResourceVersion()), "spec": spec})
		if !apierrors.IsConflict(err) { // a conflict means that it has changed
			return ends, err
		}
	}
}

func (f *found) shutdownTime() *metav1.Time {
	if f.claim != nil {
		return f.claim.Spec.Lifecycle.ShutdownTime
	}
	return f.sandbox.Spec.ShutdownTime
}

// findOurs is find, without what another client has made.
func (c *cluster) findOurs(ctx context.Context, id string) (*found, error) {
	f, err := c.find(ctx, id)
	if err == nil && f.foreign {
		err = podError(c.namespace, id, launcher.ErrNotOurs, "", "another client made the object of this name")
	}
	return f, err
}

// terminate deletes what stands for the sandbox, and returns when all of it is gone. A launch that
// was killed may have left a claim beside the Sandbox that counts.
func (c *cluster) terminate(ctx context.Context, id string) error {
	f, err := c.findOurs(ctx, id)
	for range 2 {
		if errors.Is(err, launcher.ErrNotFound) || err == nil && f == nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.remove(ctx, f); err != nil {
			return err
		}
		f, err = c.findOwn(ctx, id, false)
	}
	return nil
}

// remove deletes an object that stands for a sandbox, and returns when it is gone, which it is
// after its pod.
func (c *cluster) remove(ctx context.Context, f *found) error {
	if err := c.delete(ctx, f, ""); err != nil {
		return err
	}
	return c.awaitGone(ctx, f)
}

// delete deletes the object that stands for the sandbox, after all that belongs to it. With a
// version it does so only if the object has not changed.
func (c *cluster) delete(ctx context.Context, f *found, version string) error {
	uid := f.main().GetUID()
	only := &metav1.Preconditions{UID: &uid}
	if version != "" {
		only.ResourceVersion = &version
	}
	err := c.dynamic.Resource(f.resource()).Namespace(c.namespace).Delete(ctx, f.main().GetName(), metav1.DeleteOptions{
		Preconditions: only, PropagationPolicy: new(metav1.DeletePropagationForeground),
	})
	if apierrors.IsNotFound(err) || version == "" && apierrors.IsConflict(err) { // another has its name by now
		return nil
	}
	return forbidden(c.namespace, f.main().GetName(), err)
}

// abandon removes what a launch has made, unless another has adopted it. A Sandbox that does not
// count goes in any case. The object may be as it was to be made: then only the time of its creation
// tells it from another's.
func (c *cluster) abandon(ctx context.Context, f *found) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	created := f.main().GetAnnotations()[podmeta.AnnotationCreated]
	for {
		now := *f
		err := c.refresh(ctx, &now)
		switch annotations := now.main().GetAnnotations(); {
		case isMissing(err):
			return nil
		case err == nil && annotations[podmeta.AnnotationCreated] != created:
			return nil
		case err == nil && annotations[podmeta.AnnotationAdopted] != "" && (now.claim != nil || counts(now.sandbox)):
			return nil
		case err == nil:
			err = c.delete(ctx, &now, now.main().GetResourceVersion())
		}
		if err == nil || ctx.Err() != nil || errors.As(err, new(*launcher.PodError)) {
			return err
		}
		delay.For(ctx, gonePoll) // it has changed, or the API server is away
	}
}

// awaitGone returns when the object that stands for the sandbox is gone.
func (c *cluster) awaitGone(ctx context.Context, f *found) error {
	seen := *f
	return poll(ctx, func() (bool, error) {
		err := c.look(ctx, &seen)
		if errors.Is(err, launcher.ErrGone) {
			return true, nil
		}
		return false, err
	})
}

// awaitNoPod returns when the Sandbox has no pod.
func (c *cluster) awaitNoPod(ctx context.Context, f *found) error {
	return poll(ctx, func() (bool, error) {
		pod, err := c.api.CoreV1().Pods(c.namespace).Get(ctx, f.podName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && !metav1.IsControlledBy(pod, f.sandbox), err
	})
}

// poll asks until the answer is yes or an error.
func poll(ctx context.Context, done func() (bool, error)) error {
	for wait := gonePoll; ; wait = min(2*wait, lookAgain) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		delay.For(ctx, wait)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// setMode says whether the Sandbox is to have a pod.
func (c *cluster) setMode(ctx context.Context, f *found, mode string) error {
	now, err := c.patch(ctx, sandboxes, f.sandbox.Name, map[string]any{
		"metadata": preconditions(f.sandbox, ""), "spec": map[string]any{"operatingMode": mode},
	})
	if err == nil {
		f.sandbox, err = decode[sandbox](now, nil)
	}
	return err
}

// dropEnded deletes the sandbox's pod if that has ended, so that the controller makes another.
func (c *cluster) dropEnded(ctx context.Context, f *found) error {
	if f.sandbox == nil {
		return nil
	}
	pods := c.api.CoreV1().Pods(c.namespace)
	pod, err := pods.Get(ctx, f.podName(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(pod, f.sandbox):
		return nil
	case err == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
		return nil
	case err == nil:
		err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return forbidden(c.namespace, f.podName(), err)
	}
	return poll(ctx, func() (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, ignoreNotFound(err)
	})
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// annotate writes an annotation of the object that stands for the sandbox.
func (c *cluster) annotate(ctx context.Context, f *found, annotation, value string) error {
	meta := preconditions(f.main(), "")
	meta["annotations"] = map[string]string{annotation: value}
	return c.patchMain(ctx, f, map[string]any{"metadata": meta})
}

// now is the time as annotations have it.
func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// patchMain changes the object that stands for the sandbox. The error is ErrGone if that is gone
// or going.
func (c *cluster) patchMain(ctx context.Context, f *found, changes map[string]any) error {
	now, err := c.patch(ctx, f.resource(), f.main().GetName(), changes)
	if err == nil && now.GetDeletionTimestamp() != nil {
		return podError(c.namespace, now.GetName(), launcher.ErrGone, "", "it is being deleted")
	}
	return err
}
