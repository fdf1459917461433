package launcher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// get returns a pod; one of a newer form with ErrNewer.
func (c *cluster) get(ctx context.Context, name string) (*corev1.Pod, error) {
	pod, err := c.api.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, c.apiError(name, err)
	}
	return pod, c.checkForm(name, "it", pod)
}

// delete deletes exactly this pod, and no other of its name. With a resourceVersion
// it does so only if the pod has not changed.
func (c *cluster) delete(ctx context.Context, pod *corev1.Pod, resourceVersion string) error {
	err := c.tryDelete(ctx, pod, resourceVersion)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// tryDelete is delete, but returns an error if the pod was already gone.
func (c *cluster) tryDelete(ctx context.Context, pod *corev1.Pod, resourceVersion string) error {
	only := &metav1.Preconditions{UID: &pod.UID}
	if resourceVersion != "" {
		only.ResourceVersion = &resourceVersion
	}
	err := c.api.CoreV1().Pods(c.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: only})
	if err == nil {
		c.log.Info("deleted pod", "sandbox", pod.Annotations[podmeta.AnnotationID], "pod", pod.Name, "uid", pod.UID)
	}
	return c.apiError(pod.Name, err)
}

// remove deletes the pod and returns when it is gone.
func (c *cluster) remove(ctx context.Context, pod *corev1.Pod) error {
	// A conflict means that another pod has its name by now.
	if err := c.delete(ctx, pod, ""); err != nil && !apierrors.IsConflict(err) {
		return err
	}
	return c.awaitGone(ctx, pod)
}

// awaitGone returns when this pod is gone.
func (c *cluster) awaitGone(ctx context.Context, pod *corev1.Pod) error {
	for {
		now, err := c.get(ctx, pod.Name)
		if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
			return nil
		}
		if err != nil {
			return err
		}
		for event, err := range c.events(ctx, now) {
			if err != nil {
				return err
			}
			if event.Type == watch.Deleted {
				return nil
			}
		}
	}
}

// events yields the events of the pod after it was read, until the watch ends,
// which it may do at any time.
func (c *cluster) events(ctx context.Context, pod *corev1.Pod) func(func(watch.Event, error) bool) {
	return func(yield func(watch.Event, error) bool) {
		w, err := c.api.CoreV1().Pods(c.namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector("metadata.name", pod.Name).String(),
			ResourceVersion: pod.ResourceVersion,
		})
		if err != nil {
			yield(watch.Event{}, c.apiError(pod.Name, err))
			return
		}
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				yield(watch.Event{}, context.Cause(ctx))
				return
			case event, ok := <-w.ResultChan():
				if !ok || event.Type == watch.Error { // such as a version that is too old
					return
				}
				if !yield(event, nil) {
					return
				}
			}
		}
	}
}

// podError returns an error about the pod, or its claim.
func (c *cluster) podError(pod metav1.Object, class error, reason, message string) *PodError {
	return &PodError{Pod: c.namespace + "/" + pod.GetName(), Class: class, Reason: reason, Message: message}
}

// apiError classifies an error of the API about a pod, if it has a class.
func (c *cluster) apiError(name string, err error) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &PodError{Pod: c.namespace + "/" + name, Class: ErrForbidden, Message: err.Error(), Err: err}
	case apierrors.IsNotFound(err) && kindOf(err) == "namespaces":
		return &PodError{Pod: c.namespace + "/" + name, Class: ErrNoNamespace, Message: err.Error(), Err: err}
	case wasReplaced(err):
		return apierrors.NewConflict(corev1.Resource(kindOf(err)), name, err)
	}
	return err
}

// wasReplaced reports whether a patch was refused because another object has the name by now. The
// API server calls that a wrong field.
func wasReplaced(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsInvalid(err) && status.ErrStatus.Details != nil &&
		slices.ContainsFunc(status.ErrStatus.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// createError classifies an error of a pod's creation. It names the pod if
// admission refuses it, but not if the caller may not create pods at all.
func (c *cluster) createError(name string, err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return err
	}
	named := status.ErrStatus.Details != nil && status.ErrStatus.Details.Name != "" && kindOf(err) != "namespaces"
	switch {
	case apierrors.IsForbidden(err) && named, apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		isWebhook(status.ErrStatus):
		return &PodError{Pod: c.namespace + "/" + name, Class: ErrRejected, Message: err.Error(), Err: err}
	}
	return c.apiError(name, err)
}

// isWebhook reports whether a status is not the API server's own. An admission
// webhook chooses its status code, and the text says which webhook it was.
func isWebhook(status metav1.Status) bool {
	return status.Code >= http.StatusBadRequest && status.Code < http.StatusInternalServerError &&
		status.Reason == "" && status.Details == nil
}

// kindOf returns the kind of object that an error of the API is about.
func kindOf(err error) string {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Details != nil {
		return status.ErrStatus.Details.Kind
	}
	return ""
}

// warnings returns the latest warnings of the cluster about the pod. If they cannot
// be listed, that is a warning, too, for people to read.
func (c *cluster) warnings(ctx context.Context, pod *corev1.Pod) []string {
	list, err := c.api.CoreV1().Events(c.namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(
			fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)),
			fields.OneTermEqualSelector("type", corev1.EventTypeWarning),
		).String(),
		Limit: maxEvents,
	})
	if err != nil {
		return []string{"cannot list them: " + err.Error()}
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return eventTime(a).Compare(eventTime(b)) })
	var texts []string
	for _, e := range list.Items[max(0, len(list.Items)-shownEvents):] {
		texts = append(texts, e.Reason+": "+e.Message)
	}
	return texts
}

func eventTime(e corev1.Event) time.Time {
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// condition says in a few words how far the pod has come.
func condition(pod *corev1.Pod) string {
	words := []string{"phase " + string(pod.Status.Phase)}
	if pod.Status.Message != "" {
		words = append(words, pod.Status.Message)
	}
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.State.Waiting != nil:
			words = append(words, fmt.Sprintf("container waits: %s %s", s.State.Waiting.Reason, s.State.Waiting.Message))
		case s.State.Terminated != nil:
			words = append(words, "container ended: "+exitOf(s.State.Terminated))
		}
		if last := s.LastTerminationState.Terminated; last != nil {
			words = append(words, fmt.Sprintf("it was started %d times, and last ended: %s", s.RestartCount+1, exitOf(last)))
		}
	}
	return joined(words)
}

// exitOf says how a container ended.
func exitOf(t *corev1.ContainerStateTerminated) string {
	return strings.TrimSpace(fmt.Sprintf("%s, exit code %d %s", t.Reason, t.ExitCode, t.Message))
}

func joined(texts []string) string { return strings.Join(texts, "; ") }
