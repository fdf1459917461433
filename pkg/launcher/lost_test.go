package launcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// endedContainer returns a container's end, so long ago.
func endedContainer(reason string, code int32, ago time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, FinishedAt: metav1.NewTime(time.Now().Add(-ago)),
	}}
}

func TestMishapIsWhatTheClusterSaysOfThePod(t *testing.T) {
	container := func(name string, now, last corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod"},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: name, State: now, LastTerminationState: last}}},
		}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	nodeLost := container(containerName, running, corev1.ContainerState{})
	nodeLost.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionUnknown, Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status.",
	}}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		class error
		text  string
	}{
		{"it runs", container(containerName, running, corev1.ContainerState{}), nil, ""},
		{"it ended long ago", container(containerName, running, endedContainer("Error", 1, time.Hour)), nil, ""},
		{"a sidecar ended", container("sidecar", running, endedContainer("Error", 1, 0)), nil, ""},
		{"out of memory", container(containerName, running, endedContainer("OOMKilled", 137, time.Second)), ErrContainerEnded, "OOMKilled: it was killed because it was out of memory"},
		{"not started again yet", container(containerName, endedContainer("OOMKilled", 137, 0), corev1.ContainerState{}), ErrContainerEnded, "OOMKilled: it was killed because it was out of memory"},
		{"killed", container(containerName, running, endedContainer("Error", 137, time.Second)), ErrContainerEnded, "Error: signal 9"},
		{"by a clock ahead", container(containerName, running, endedContainer("Error", 2, -10*time.Second)), ErrContainerEnded, "Error: exit code 2"},
		{"its node is away", nodeLost, ErrNodeLost, "NodeStatusUnknown: Kubelet stopped posting node status."},
	} {
		c := &cluster{namespace: "ns"}
		err := c.openPod(tt.pod).mishap(tt.pod)
		if tt.class == nil {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if want := "pod ns/pod: " + tt.class.Error() + ": " + tt.text; !errors.Is(err, tt.class) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", tt.name, err, want)
		}
	}
}
