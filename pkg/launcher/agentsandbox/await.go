package agentsandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher"
)

// errNotReady is the cause of a context whose ready timeout is over.
var errNotReady = errors.New("the ready timeout is over")

// Waiting looks again when the object changes, after lookPause, and at least every lookAgain. An
// object without any condition after controllerPatience has no controller.
const (
	lookPause          = 20 * time.Millisecond
	lookAgain          = 2 * time.Second
	controllerPatience = 8 * time.Second
)

// awaitPod returns the sandbox's pod as soon as there is one, in whatever state, or the reason why
// there will be none.
func (c *cluster) awaitPod(ctx context.Context, f *found) (*corev1.Pod, error) {
	began := time.Now()
	for {
		pod, err := c.podOf(ctx, f)
		if err != nil || pod != nil {
			return pod, err
		}
		if time.Since(began) > controllerPatience && f.isUntouched() {
			return nil, fmt.Errorf("%w: %s/%s has had no condition for %v", ErrNoController, c.namespace, f.main().GetName(), controllerPatience)
		}
		if err := c.awaitChange(ctx, f); err != nil {
			return nil, forbidden(c.namespace, f.main().GetName(), err)
		}
	}
}

// awaitChange returns once the claim has a Sandbox, the Sandbox has changed, or it was time to look
// again.
func (c *cluster) awaitChange(ctx context.Context, f *found) (err error) {
	var seen bool
	if f.sandbox == nil {
		seen, err = follow(ctx, c.claims(), f.claim, func(now *claim) bool {
			f.claim = now
			return now.Status.Sandbox.Name != "" || f.failure(c.namespace) != nil
		})
		if seen && err == nil {
			return c.addSandbox(ctx, f)
		}
	} else {
		seen, err = follow(ctx, c.sandboxes(), f.sandbox, func(now *sandbox) bool {
			f.sandbox = now
			return true
		})
	}
	if seen || err != nil {
		return err
	}
	delay.For(ctx, lookPause)
	return c.look(ctx, f)
}

// follow shows each later state of an object, until one is enough, which it reports, the object is
// gone, or it is time to look again.
func follow[T any, P interface {
	*T
	metav1.Object
}](ctx context.Context, all store[T], object P, isEnough func(now *T) bool,
) (enough bool, err error) {
	soon, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	w, err := all.api.Watch(soon, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", object.GetName()).String(),
		ResourceVersion: object.GetResourceVersion(),
	})
	if err != nil {
		return false, apiError(err)
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Deleted || event.Type == watch.Error {
			return false, nil
		}
		now, err := decode[T](u, nil)
		if err != nil || isEnough(now) {
			return err == nil, err
		}
	}
	return false, context.Cause(ctx)
}

// podOf returns the pod of a Sandbox; nil if there may be one soon.
func (c *cluster) podOf(ctx context.Context, f *found) (*corev1.Pod, error) {
	if err := f.failure(c.namespace); err != nil {
		return nil, err
	}
	if f.sandbox == nil {
		return nil, nil
	}
	pod, err := c.api.CoreV1().Pods(c.namespace).Get(ctx, f.podName(), metav1.GetOptions{})
	isOwn := err == nil && metav1.IsControlledBy(pod, f.sandbox)
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.DeletionTimestamp != nil:
		return nil, nil
	case err == nil && !isOwn && condition(f.sandbox.Status.Conditions, "Ready").Reason == "ReconcilerError":
		return nil, podError(c.namespace, pod.Name, launcher.ErrNotOurs, "", "the pod of this name is not its Sandbox's")
	case err == nil && !isOwn: // the controller may adopt it
		return nil, nil
	case err != nil:
		return nil, forbidden(c.namespace, f.podName(), err)
	}
	return pod, nil
}

// podName returns the name of the Sandbox's pod.
func (f *found) podName() string {
	return cmp.Or(f.sandbox.Annotations[annotationPodName], f.sandbox.Name)
}

// isUntouched reports whether no controller has written anything about the object.
func (f *found) isUntouched() bool {
	if f.claim != nil {
		return len(f.claim.Status.Conditions) == 0 && f.sandbox == nil
	}
	return len(f.sandbox.Status.Conditions) == 0
}

// failure returns why the sandbox will get no pod, or has none any more, as the controller says
// it in a condition.
func (f *found) failure(namespace string) error {
	if f.claim != nil {
		if err := failureOf(namespace, f.claim.Name, condition(f.claim.Status.Conditions, "Ready")); err != nil {
			return err
		}
	}
	if f.sandbox == nil {
		return nil
	}
	return failureOf(namespace, f.sandbox.Name, condition(f.sandbox.Status.Conditions, "Ready"))
}

// failureOf returns the error that a Ready condition stands for; nil if it may become true.
func failureOf(namespace, name string, ready metav1.Condition) error {
	if ready.Status != metav1.ConditionFalse {
		return nil
	}
	failure := func(class error) error { return podError(namespace, name, class, ready.Reason, ready.Message) }
	switch ready.Reason {
	case "WarmPoolNotFound":
		return fmt.Errorf("%w: %s", ErrNoWarmPool, ready.Message)
	case "TemplateNotFound":
		return fmt.Errorf("%w: %s", ErrNoTemplate, ready.Message)
	case "InvalidMetadata", "EnvVarsInjectionRejected", "VolumeClaimTemplatesError", "InvalidConfiguration", "MultiplePods":
		return failure(launcher.ErrRejected)
	case "SandboxExpired", "ClaimExpired": // a pod that has ended says so itself
		return failure(launcher.ErrStale)
	case "SandboxMissing":
		return failure(launcher.ErrGone)
	case "ReconcilerError":
		// The controller tries again, but an API server that refuses a pod goes on to.
		for _, refusal := range []string{" is forbidden: ", " is invalid: ", "denied the request"} {
			if strings.Contains(ready.Message, refusal) {
				return failure(launcher.ErrRejected)
			}
		}
	}
	return nil
}

// notReady returns err, or what the sandbox waits for if the ready timeout is over.
func (c *cluster) notReady(ctx context.Context, name string, f *found, err error) error {
	if !errors.Is(context.Cause(ctx), errNotReady) || errors.As(err, new(*launcher.PodError)) {
		return err
	}
	ready := metav1.Condition{}
	switch {
	case f == nil:
	case f.main().GetDeletionTimestamp() != nil:
		ready.Message = fmt.Sprintf("it is still being deleted, with the finalizers %q", f.main().GetFinalizers())
	case f.sandbox != nil:
		ready = condition(f.sandbox.Status.Conditions, "Ready")
	default:
		ready = condition(f.claim.Status.Conditions, "Ready")
	}
	if ready.Status == metav1.ConditionTrue {
		ready = metav1.Condition{}
	}
	return podError(c.namespace, name, launcher.ErrNotReady, ready.Reason, cmp.Or(ready.Message, err.Error()))
}

// forbidden classifies an error of the API about a missing permission, or namespace.
func forbidden(namespace, name string, err error) error {
	class := launcher.ErrForbidden
	switch status, _ := errors.AsType[*apierrors.StatusError](err); {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
	case apierrors.IsNotFound(err) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Kind == "namespaces":
		class = launcher.ErrNoNamespace
	default:
		return err
	}
	return classified(namespace, name, class, err)
}

func classified(namespace, name string, class, err error) error {
	e := podError(namespace, name, class, "", err.Error())
	e.Err = err
	return e
}

// createError classifies an error of the creation of an object. One that names the object is
// admission's: a quota's, or a policy's.
func createError(namespace, name string, err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	named := ok && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name != ""
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) && named {
		return classified(namespace, name, launcher.ErrRejected, err)
	}
	return forbidden(namespace, name, err)
}
