package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Heartbeat marks the pod once as needed, as an open sandbox does by itself: see
// Take.Heartbeat. If there is no sandbox, the error is [ErrNotFound].
func (k *Kubernetes) Heartbeat(ctx context.Context, id string) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return wrap("keeping", id, err)
	}
	pod, err := c.lookup(ctx, id)
	if err == nil {
		err = c.beat(ctx, pod)
	}
	return wrap("keeping", id, err)
}

// timeText formats times for annotations, finely enough to tell one from the next.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// beat writes into the pod's annotation that the sandbox is needed.
func (c *cluster) beat(ctx context.Context, pod *corev1.Pod) error {
	return c.annotate(ctx, pod, podmeta.AnnotationHeartbeat)
}

// mark marks the pod and its claim as used by a launch that did not create them:
// then the creator and reapers leave them alone. If both are being removed, the
// error is that the pod is gone; if the claim alone is gone, it is errClaimGone.
func (c *cluster) mark(ctx context.Context, pod *corev1.Pod) error {
	var going error // the claim
	if ownClaim(pod) {
		going = c.adoptClaim(ctx, pod)
		switch {
		case apierrors.IsNotFound(going):
			e := c.podError(pod, ErrNotKept, "", errClaimGone.Error())
			e.Err = errClaimGone
			going = e
		case going != nil && !endedSince(going):
			return going
		}
	}
	return cmp.Or(c.annotate(ctx, pod, podmeta.AnnotationHeartbeat, podmeta.AnnotationAdopted), going)
}

// annotate writes the time into annotations of the pod. If the pod is gone, being
// deleted, or replaced by another of the same name, the error is ErrGone.
func (c *cluster) annotate(ctx context.Context, pod *corev1.Pod, names ...string) error {
	values := map[string]string{}
	for _, name := range names {
		values[name] = timeText(time.Now())
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID, // a precondition
		"annotations": values,
	}})
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		now, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		err = c.apiError(pod.Name, err)
		gone := apierrors.IsNotFound(err) || err == nil && now.DeletionTimestamp != nil
		if apierrors.IsConflict(err) { // by the UID, or because others change the pod all the time
			there, lookErr := c.get(ctx, pod.Name)
			if gone = apierrors.IsNotFound(lookErr) || lookErr == nil && there.UID != pod.UID; !gone && try < annotateTries {
				continue
			}
		}
		if gone {
			e := c.podError(pod, ErrGone, "", "it was deleted or replaced")
			e.Err = err
			return e
		}
		return err
	}
}

// attachBeating is attach, with heartbeats from the beginning: a pod that waits
// long for its image or its node is needed, too.
func (o *openPod) attachBeating(ctx context.Context, spec *Spec, created bool) (*Sandbox, error) {
	interval := cmp.Or(spec.Take.Heartbeat, DefaultHeartbeat)
	if interval == HeartbeatOff {
		return o.attach(ctx, spec, created)
	}
	o.heart.add(o, interval)
	s, err := o.attach(ctx, spec, created)
	if err != nil {
		o.heart.forget(o)
		return nil, err
	}
	s.closes(func(ctx context.Context) error {
		if s.removed {
			o.heart.forget(o)
		} else {
			o.heart.end(ctx, o)
		}
		return nil
	})
	return s, nil
}
