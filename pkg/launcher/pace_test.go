package launcher

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Tries to connect cost the node what it needs to start pods.
func TestPaceOfTriesFollowsTheNode(t *testing.T) {
	running := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: containerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}}}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		starting int32
		network  time.Duration
		want     time.Duration
	}{
		"a fast node":           {&corev1.Pod{}, 1, 300 * time.Millisecond, firstRetry},
		"a slow node":           {&corev1.Pod{}, 1, 4 * time.Second, 500 * time.Millisecond},
		"many starts":           {&corev1.Pod{}, fewStarts + 1, 2 * time.Second, 2 * time.Second},
		"many slow starts":      {&corev1.Pod{}, fewStarts + 1, time.Minute, manyRetry},
		"a container that runs": {running, fewStarts + 1, time.Minute, firstRetry},
		"no watch":              {nil, fewStarts + 1, time.Minute, firstRetry},
	} {
		c := &cluster{}
		c.starting.Store(test.starting)
		o := c.openPod(&corev1.Pod{})
		o.state.saw(test.pod)
		o.state.network = test.network
		if got := o.pace(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := retryDelay(3, manyRetry); got != manyRetry {
		t.Errorf("after three tries: %v", got)
	}
}
