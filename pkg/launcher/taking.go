package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// setByTaking are the traits that a pod gets when it is taken.
var setByTaking = []string{"lifetime", "idleTimeout", "activeDeadline", "labels"}

// take makes a pod of a pool that of the sandbox, if it has not changed: the one write that
// makes the holding count. The agent gets the assignment by the connection, and again from
// the annotation when it starts again.
func (c *cluster) take(ctx context.Context, spec *Spec, pod *corev1.Pod, held *coordinationv1.Lease) (*corev1.Pod, error) {
	patch, err := c.takingPatch(ctx, spec, pod, held)
	if err != nil {
		return nil, err
	}
	taken, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		return taken, nil
	}
	// The answer may be to a repetition of the request, or have come from in between.
	taken, settleErr := c.settle(ctx, pod, held, isRefused(err))
	switch {
	case settleErr != nil:
		return nil, fmt.Errorf("%w, and it is not known whether the pod was taken: %w", settleErr, err)
	case taken != nil:
		return taken, nil
	}
	return nil, c.apiError(pod.Name, err)
}

// isRefused reports whether the API server has refused a request, so that it had no effect.
// Without such an answer it may have had one.
func isRefused(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= http.StatusBadRequest && status.ErrStatus.Code < http.StatusInternalServerError
}

func (c *cluster) takingPatch(ctx context.Context, spec *Spec, pod *corev1.Pod, held *coordinationv1.Lease) ([]byte, error) {
	r, err := c.identities.fresh(ctx, ringAge)
	if err != nil {
		return nil, err
	}
	signer := r.accepted().of(acceptedNow(pod)...)
	if signer == nil {
		return nil, c.otherKey(pod, pod.Annotations[podmeta.AnnotationKey])
	}
	assignment, err := signer.keys.Assignment(string(pod.UID), spec.Env, spec.Protected, spec.Pod.idle())
	if err != nil {
		return nil, err
	}
	now := time.Now()
	annotations := podAnnotations(spec, nil, now)
	delete(annotations, podmeta.AnnotationKey) // the agent has its keys
	annotations[podmeta.AnnotationHolding], annotations[podmeta.AnnotationAssignment] = string(held.UID), assignment
	annotations[podmeta.AnnotationPool] = pod.Labels[podmeta.LabelPool]
	if spec.Pod.Lifetime > 0 {
		annotations[podmeta.AnnotationExpires] = timeText(now.Add(spec.Pod.Lifetime))
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": pod.UID, "resourceVersion": pod.ResourceVersion, // preconditions
			"labels": takenLabels(spec, pod), "annotations": annotations,
			"ownerReferences": nil, // its ReplicaSet makes another
		},
		"spec": map[string]any{"activeDeadlineSeconds": deadlineOf(spec, pod, now)},
	})
}

// takenLabels are the changes of the labels of a pod that is taken. Its pool no longer selects
// it.
func takenLabels(spec *Spec, pod *corev1.Pod) map[string]any {
	changes := map[string]any{podmeta.LabelPool: nil}
	var made traits
	_ = json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made) // it fits, so it was read before
	for name := range made.Labels {
		changes[name] = nil
	}
	for name, value := range podLabels(spec) {
		changes[name] = value
	}
	return changes
}

// deadlineOf returns when the cluster is to end a pod that is taken now, in seconds since the
// pod's start.
func deadlineOf(spec *Spec, pod *corev1.Pod, now time.Time) int64 {
	deadline := *podSpec(spec, nil).ActiveDeadlineSeconds
	if pod.Status.StartTime != nil {
		deadline += max(0, int64(now.Sub(pod.Status.StartTime.Time)/time.Second))
	}
	return min(deadline, int64(maxActiveDeadline/time.Second))
}

// settle returns the pod if this launch has taken it after all. Otherwise it sees to it that it
// is not taken later: unless the request was refused, it deletes the pod, which then goes with
// the holding.
func (c *cluster) settle(ctx context.Context, pod *corev1.Pod, held *coordinationv1.Lease, refused bool) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		now, err := c.get(ctx, pod.Name)
		switch {
		case apierrors.IsNotFound(err), err == nil && now.UID != pod.UID:
			return nil, nil
		case err == nil && isHeldBy(now, held):
			return now, nil
		case err == nil && (refused || now.Labels[podmeta.LabelManagedBy] != podmeta.ManagedByPool):
			return nil, nil
		case err == nil:
			err = c.delete(ctx, now, now.ResourceVersion)
		}
		switch {
		case err == nil:
			return nil, nil
		case errors.As(err, new(*PodError)), ctx.Err() != nil:
			return nil, err
		case !apierrors.IsConflict(err): // the API server is away; a conflict means that the pod has changed
			delay.For(ctx, apiRetry)
		}
	}
}

// checkTaken returns an error if a pod that was just taken is about to go: a scale-down that
// saw it in the pool deletes it by its name.
func (c *cluster) checkTaken(ctx context.Context, pod *corev1.Pod) error {
	now, err := c.get(ctx, pod.Name)
	switch {
	case apierrors.IsNotFound(err), err == nil && (now.UID != pod.UID || now.DeletionTimestamp != nil):
		return c.podError(pod, ErrGone, "", "it was deleted as one of its pool")
	case err != nil:
		return fmt.Errorf("cannot see whether the pod stays: %w", err)
	}
	return nil
}
