package launcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// ours selects the pods of sandboxes.
var ours = labels.Set{LabelManagedBy: ManagedBy}.String()

// lookup returns the pod of the sandbox, in whatever state it is.
func (c *cluster) lookup(ctx context.Context, id string) (*corev1.Pod, error) {
	pod, err := c.get(ctx, nameOf(id))
	if apierrors.IsNotFound(err) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return pod, c.checkOurs(pod, id)
}

func (c *cluster) terminate(ctx context.Context, id string) error {
	pod, err := c.lookup(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.remove(ctx, pod)
}

// pods returns the pods of all sandboxes.
func (c *cluster) pods(ctx context.Context) ([]corev1.Pod, error) {
	var pods []corev1.Pod
	list := pager.New(pager.SimplePageFunc(func(opts metav1.ListOptions) (runtime.Object, error) {
		return c.api.CoreV1().Pods(c.namespace).List(ctx, opts)
	}))
	err := list.EachListItem(ctx, metav1.ListOptions{LabelSelector: ours}, func(o runtime.Object) error {
		pods = append(pods, *o.(*corev1.Pod))
		return nil
	})
	return pods, c.apiError("", err)
}

func (c *cluster) list(ctx context.Context) ([]Summary, error) {
	pods, err := c.pods(ctx)
	list := make([]Summary, len(pods))
	for i := range pods {
		list[i] = summaryOf(&pods[i])
	}
	slices.SortFunc(list, func(a, b Summary) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

func summaryOf(pod *corev1.Pod) Summary {
	s := Summary{
		ID:        pod.Annotations[AnnotationID],
		State:     stateOf(pod),
		Created:   pod.CreationTimestamp.UTC(),
		Pod:       pod.Name,
		Heartbeat: heartbeatOf(pod),
	}
	if len(pod.Spec.Containers) > 0 {
		s.Workdir = pod.Spec.Containers[0].WorkingDir
	}
	return s
}

func stateOf(pod *corev1.Pod) State {
	switch {
	case pod.DeletionTimestamp != nil:
		return Terminating
	case ended(pod):
		return Ended
	case isRunning(pod):
		return Running
	}
	return Pending
}

// isRunning reports whether the agent's container runs. It serves from its
// first milliseconds on, some seconds before the kubelet says that it is ready.
func isRunning(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == containerName && s.State.Running != nil
	})
}

// heartbeatOf returns the pod's last heartbeat: its creation, if it has none
// that can be read.
func heartbeatOf(pod *corev1.Pod) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, pod.Annotations[AnnotationHeartbeat])
	return cmp.Or(t, pod.CreationTimestamp.UTC())
}
