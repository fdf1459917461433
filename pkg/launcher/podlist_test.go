package launcher

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet may say late that a container runs. Until the network is there, and while
// init containers run, nothing can serve.
func TestAgentMayServeBeforeTheKubeletSaysThatItRuns(t *testing.T) {
	network := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	noNetwork := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
	initialized := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for _, test := range []struct {
		name       string
		state      corev1.ContainerState
		conditions []corev1.PodCondition
		want       bool
	}{
		{containerName, runs, nil, true},
		{"beside", runs, nil, false},
		{containerName, waits("ContainerCreating"), []corev1.PodCondition{network}, true},
		{containerName, waits("ContainerCreating"), []corev1.PodCondition{noNetwork}, false},
		{containerName, waits("PodInitializing"), []corev1.PodCondition{network, initialized}, true},
		{containerName, waits("PodInitializing"), []corev1.PodCondition{network}, false},
		{containerName, waits("ErrImagePull"), []corev1.PodCondition{network, initialized}, false},
		{containerName, waits("CrashLoopBackOff"), []corev1.PodCondition{network, initialized}, false},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{
			Conditions:        test.conditions,
			ContainerStatuses: []corev1.ContainerStatus{{Name: test.name, State: test.state}},
		}}
		if got := mayServe(pod); got != test.want {
			t.Errorf("%s, %+v with %+v: %v", test.name, test.state, test.conditions, got)
		}
	}
}
