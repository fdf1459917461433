package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Assignment returns Env, Protected and Pod.IdleTimeout of spec for [Kubernetes.Enter], signed
// for the place where they are kept.
func (k *Kubernetes) Assignment(ctx context.Context, place string, spec Spec) (string, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return "", err
	}
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return "", err
	}
	return r.accepted()[0].keys.Assignment(place, spec.Env, spec.Protected, spec.Pod.IdleTimeout)
}

// Enter opens sandbox spec.ID in a pod that others made from a [Kubernetes.PoolTemplate]. One
// that waits gets the assignment for this place. CloseDelete and [Sandbox.Terminate] use end.
func (k *Kubernetes) Enter(ctx context.Context, end Launcher, pod *corev1.Pod, place, assignment string, spec Spec) (*Sandbox, error) {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return nil, err
	}
	timeout := cmp.Or(spec.Take.ReadyTimeout, DefaultReadyTimeout)
	ready, cancel := context.WithTimeoutCause(ctx, timeout, errNotReady)
	defer cancel()
	s, err := c.enterMade(ready, pod, place, assignment, &spec)
	if err != nil {
		return nil, c.timedOut(ready, pod.Name, timeout, err)
	}
	if spec.Git != nil { // it has its own timeout
		if err := spec.Git.checkout(ctx, s, c.log); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if spec.OnClose == CloseDelete {
		s.undo = func() error {
			return s.cleanUp(func(ctx context.Context) error { return end.Terminate(ctx, spec.ID) })
		}
	}
	return s.endsBy(end), nil
}

// enterMade assigns a pod that others have made, unless it is assigned, and connects to its agent.
func (c *cluster) enterMade(ctx context.Context, pod *corev1.Pod, place, assignment string, spec *Spec) (*Sandbox, error) {
	for {
		if err := cmp.Or(c.over(pod), c.checkForm(pod.Name, "it", pod), c.checkKey(ctx, pod)); err != nil {
			return nil, err
		}
		if id, ok := pod.Annotations[podmeta.AnnotationID]; ok {
			if id != spec.ID {
				return nil, c.podError(pod, ErrNotOurs, "", fmt.Sprintf("it belongs to sandbox %q", id))
			}
			return c.enter(ctx, &acquired{pod: pod}, spec)
		}
		assigned, err := c.assign(ctx, pod, place, assignment, spec)
		switch {
		case err == nil:
			return c.enter(ctx, &acquired{pod: assigned, manifest: assigned}, spec)
		case !apierrors.IsConflict(err):
			return nil, err
		}
		if pod, err = c.again(ctx, pod); err != nil {
			return nil, err
		}
	}
}

// again returns a pod as it is now.
func (c *cluster) again(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	now, err := c.get(ctx, pod.Name)
	if apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID {
		return nil, c.podError(pod, ErrGone, "", "it was deleted or replaced")
	}
	return now, err
}

// assign makes a pod that waits that of a sandbox, if it has not changed. A controller of others
// keeps the labels and annotations of the template as they are, and no others.
func (c *cluster) assign(ctx context.Context, pod *corev1.Pod, place, assignment string, spec *Spec) (*corev1.Pod, error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, err
	}
	signer := r.accepted().of(acceptedNow(pod)...)
	if signer == nil {
		return nil, c.otherKey(pod, pod.Annotations[podmeta.AnnotationKey])
	}
	text, err := signer.keys.AssignmentAnew(assignment, place, string(pod.UID), r.accepted().authorized())
	if err != nil {
		return nil, c.podError(pod, ErrUnsigned, "", err.Error())
	}
	annotations := podAnnotations(spec, nil, time.Now())
	for name := range pod.Annotations {
		delete(annotations, name)
	}
	annotations[podmeta.AnnotationAssignment] = text
	labels := maps.Clone(spec.Pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[podmeta.LabelID] = podmeta.LabelOf(spec.ID)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "resourceVersion": pod.ResourceVersion, // preconditions
		"labels": labels, "annotations": annotations,
	}})
	if err != nil {
		return nil, err
	}
	now, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return now, c.apiError(pod.Name, err)
}
