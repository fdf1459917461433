package launcher

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// Heartbeat says once, in the pod, that the sandbox is needed, as an open sandbox does
// by itself: see Take.Heartbeat. If there is none, the error is [ErrNotFound].
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

// timeText is how times are written into annotations: fine enough to tell one
// from the next.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// beat says in the pod's annotation that it is needed.
func (c *cluster) beat(ctx context.Context, pod *corev1.Pod) error {
	return c.annotate(ctx, pod, podmeta.AnnotationHeartbeat)
}

// mark marks the pod, and its claim, as used by another launch than the one that
// created them: creator and reapers then leave them alone. If both are being removed,
// the error is that the pod is gone.
func (c *cluster) mark(ctx context.Context, pod *corev1.Pod) error {
	var going error // the claim
	if ownClaim(pod) {
		if going = c.markClaim(ctx, pod.Name, "", podmeta.AnnotationAdopted); going != nil && !endedSince(going) {
			return going
		}
	}
	return cmp.Or(c.annotate(ctx, pod, podmeta.AnnotationHeartbeat, podmeta.AnnotationAdopted), going)
}

// annotate writes the time into annotations of the pod. If the pod is gone, being
// deleted, or replaced by another of its name, the error is ErrGone.
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
	now, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || err == nil && now.DeletionTimestamp != nil {
		e := c.podError(pod, ErrGone, "", "it was deleted or replaced")
		e.Err = err
		return e
	}
	return c.apiError(pod.Name, err)
}

// attachBeating is attach, with the heartbeat from its beginning: a pod that waits
// for its image or its node for long is needed, too.
func (t *target) attachBeating(ctx context.Context, spec *Spec, created bool) (*Sandbox, error) {
	interval := cmp.Or(spec.Take.Heartbeat, DefaultHeartbeat)
	if interval == HeartbeatOff {
		return t.attach(ctx, spec, created)
	}
	beating, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		t.beats(beating, interval)
	}()
	s, err := t.attach(ctx, spec, created)
	stop()
	<-stopped
	if err == nil {
		s.background(func(ctx context.Context) { t.beats(ctx, interval) })
	}
	return s, err
}

// beats says in every interval that the pod is needed, until ctx ends or the pod is
// gone. The first heartbeat is the launch itself.
func (t *target) beats(ctx context.Context, interval time.Duration) {
	for {
		sleep(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		err := t.beat(ctx, t.pod)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrGone):
			t.kill(err)
			return
		case err != nil: // the API server may come back
			t.log.Warn("cannot refresh the heartbeat", "sandbox", t.pod.Annotations[podmeta.AnnotationID], "pod", t.pod.Name, "error", err)
		}
	}
}
