package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Heartbeat says once, in the pod's annotation, that the sandbox is needed.
// An open sandbox does that by itself, unless its Spec says HeartbeatOff. If
// there is none, the error is [ErrNotFound].
func (k *Kubernetes) Heartbeat(ctx context.Context, id string) error {
	c, ctx, err := k.cluster(ctx)
	if err != nil {
		return wrap("keeping", id, err)
	}
	pod, err := c.lookup(ctx, id)
	if err == nil {
		_, err = c.beat(ctx, pod)
	}
	return wrap("keeping", id, err)
}

// heartbeatText is how a heartbeat is written: fine enough to tell one from
// the next.
func heartbeatText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// beat says in the pod's annotation that it is needed, and returns the pod as it
// is then. Another pod of its name is left alone: that is ErrGone, as is none.
func (c *cluster) beat(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID, // a precondition
		"annotations": map[string]string{AnnotationHeartbeat: heartbeatText(time.Now())},
	}})
	if err != nil {
		return nil, err
	}
	now, err := c.api.CoreV1().Pods(c.namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || err == nil && now.DeletionTimestamp != nil {
		e := c.podError(pod, ErrGone, "", "it is deleted or replaced")
		e.Err = err
		return nil, e
	}
	return now, c.apiError(pod.Name, err)
}

// noteBeat remembers our own heartbeat, to be told from another's.
func (t *target) noteBeat(pod *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beaten = pod.Annotations[AnnotationHeartbeat]
}

// keepBeating says that the sandbox is needed, now and in every interval,
// until it is closed or its pod is gone.
func (s *Sandbox) keepBeating(interval time.Duration) {
	t := s.target
	s.background(func(ctx context.Context) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			now, err := t.beat(ctx, t.pod)
			switch {
			case err == nil:
				t.noteBeat(now)
			case ctx.Err() != nil:
				return
			case errors.Is(err, ErrGone):
				t.kill(err)
				return
			case err != nil: // the API server may come back
				t.log.Warn("cannot refresh the heartbeat", "sandbox", s.ID, "pod", t.pod.Name, "error", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}
