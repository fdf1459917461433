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
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podagent/podagent/pkg/launcher"
)

// errNotReady is the cause of a context whose ready timeout is over.
var errNotReady = errors.New("the ready timeout is over")

// Waiting looks again when the object changes, and at least this often. An object without any
// condition after controllerPatience has no controller.
const (
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
			return nil, err
		}
		if err := c.look(ctx, f); err != nil {
			return nil, err
		}
	}
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
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(pod, f.sandbox), err == nil && pod.DeletionTimestamp != nil:
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

// awaitChange returns when the claim that has no Sandbox, or the Sandbox, has changed, or when it
// is time to look again.
func (c *cluster) awaitChange(ctx context.Context, f *found) error {
	api, object := c.sandboxes().api, metav1.Object(f.sandbox)
	if f.sandbox == nil {
		api, object = c.claims().api, f.claim
	}
	ctx, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	w, err := api.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", object.GetName()).String(),
		ResourceVersion: object.GetResourceVersion(),
	})
	if err != nil {
		return forbidden(c.namespace, object.GetName(), apiError(err))
	}
	defer w.Stop()
	select {
	case <-w.ResultChan():
	case <-ctx.Done():
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			return cause
		}
	}
	return nil
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

// late returns err, or what the sandbox waits for if the ready timeout is over.
func (c *cluster) late(ctx context.Context, f *found, err error) error {
	if !errors.Is(context.Cause(ctx), errNotReady) || errors.As(err, new(*launcher.PodError)) || f == nil {
		return err
	}
	ready := metav1.Condition{Message: "it has no pod"}
	if f.sandbox != nil {
		ready = condition(f.sandbox.Status.Conditions, "Ready")
	} else if f.claim != nil {
		ready = condition(f.claim.Status.Conditions, "Ready")
	}
	return podError(c.namespace, f.main().GetName(), launcher.ErrNotReady, ready.Reason, ready.Message)
}

// forbidden classifies an error of the API about a missing permission.
func forbidden(namespace, name string, err error) error {
	if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		return err
	}
	e := podError(namespace, name, launcher.ErrForbidden, "", err.Error())
	e.Err = err
	return e
}

// createError classifies an error of the creation of an object.
func createError(namespace, id string, err error) error {
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		e := podError(namespace, id, launcher.ErrRejected, "", err.Error())
		e.Err = err
		return e
	}
	return forbidden(namespace, id, err)
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
