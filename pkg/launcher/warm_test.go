package launcher

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// warmPod returns a pod that waits in a pool, as the cluster has it.
func warmPod(spec Spec) *corev1.Pod {
	pod := manifest(&spec, "n", nil, time.Now())
	awaitTaking(pod, "small")
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	return pod
}

// The pods of a template are always restarted and have no deadline: a ReplicaSet takes no others.
func TestPodThatWaitsIsOneThatAReplicaSetMakes(t *testing.T) {
	pod := warmPod(Spec{Pod: Pod{Image: "i", Labels: map[string]string{"team": "x"}}})
	if pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Spec.ActiveDeadlineSeconds != nil {
		t.Errorf("restart policy %s, deadline %v", pod.Spec.RestartPolicy, pod.Spec.ActiveDeadlineSeconds)
	}
	if want := map[string]string{"team": "x", podmeta.LabelManagedBy: podmeta.ManagedByPool, podmeta.LabelPool: "small"}; !maps.Equal(pod.Labels, want) {
		t.Errorf("labels %v", pod.Labels)
	}
	for _, name := range []string{podmeta.AnnotationID, podmeta.AnnotationCreated, podmeta.AnnotationHeartbeat} {
		if value, ok := pod.Annotations[name]; ok {
			t.Errorf("annotation %s is %q", name, value)
		}
	}
}

func TestTakenPodHasTheLabelsOfItsSandboxAlone(t *testing.T) {
	pod := warmPod(Spec{Pod: Pod{Image: "i", Labels: map[string]string{"team": "x", "tier": "y"}}})
	got := takenLabels(&Spec{ID: "a", Pod: Pod{Labels: map[string]string{"tier": "z"}}}, pod)
	want := map[string]any{"team": nil, "tier": "z", podmeta.LabelPool: nil, podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelID: "a"}
	if !maps.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
}

// The cluster counts a deadline from the start of the pod, which may have waited for long.
func TestDeadlineOfATakenPodCountsFromItsTaking(t *testing.T) {
	now := time.Now()
	pod := warmPod(Spec{Pod: Pod{Image: "i"}})
	for waited, want := range map[time.Duration]int64{time.Hour: 3600 + 60, -time.Hour: 60, 100 * 365 * 24 * time.Hour: int64(maxActiveDeadline / time.Second)} {
		pod.Status.StartTime = &metav1.Time{Time: now.Add(-waited)}
		if got := deadlineOf(&Spec{Pod: Pod{ActiveDeadline: time.Minute}}, pod, now); got != want {
			t.Errorf("after %v of waiting it is %d s after the start, want %d", waited, got, want)
		}
	}
}

func TestSpecThatMustStartCold(t *testing.T) {
	for name, spec := range map[string]Spec{
		"too large": {Env: []string{"A=" + strings.Repeat("x", maxPodEnv/2)}, Protected: []string{strings.Repeat("x", maxPodEnv/2)}},
	} {
		if why := spec.mustStartCold(); !strings.Contains(why, name) {
			t.Errorf("%s: %q", name, why)
		}
	}
	if why := (&Spec{Env: []string{"A=1"}}).mustStartCold(); why != "" {
		t.Errorf("any other: %q", why)
	}
}

func TestSpecOfAPoolHasNothingOfASandbox(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"an id":          func(s *Spec) { s.ID = "a" },
		"an environment": func(s *Spec) { s.Env = []string{} },
		"protected":      func(s *Spec) { s.Protected = []string{} },
		"git":            func(s *Spec) { s.Git = &Git{} },
		"how to take it": func(s *Spec) { s.Take.Exclusive = true },
		"a lifetime":     func(s *Spec) { s.Pod.Lifetime = time.Hour },
		"a deadline":     func(s *Spec) { s.Pod.ActiveDeadline = time.Hour },
		"a command":      func(s *Spec) { s.Pod.Main = []string{"true"} },
	} {
		spec := Spec{Workdir: "/w", Pod: Pod{Image: "i"}}
		if problem := spec.checkPool(); problem != nil {
			t.Fatal(problem)
		}
		change(&spec)
		if problem := spec.checkPool(); problem == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := (&Spec{Pod: Pod{Image: "i"}, Take: Take{Pool: "No Name"}}).validatePod(); !errors.As(err, new(*SpecError)) {
		t.Errorf("the name of a pool: %v", err)
	}
}

// Where the cluster drops restart policies of containers, an agent that has ended runs again.
func TestSandboxOutOfAPoolThatEndedStaysEnded(t *testing.T) {
	pod := warmPod(Spec{Pod: Pod{Image: "i"}})
	status := &pod.Status.ContainerStatuses[0]
	for code, want := range map[int32]bool{0: true, 1: false, 137: false} {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code}
		if ended(pod) != want {
			t.Errorf("after an exit with %d it has ended: %v", code, !want)
		}
	}
	cold := manifest(&Spec{ID: "a", Pod: Pod{Image: "i"}}, "n", nil, time.Now())
	cold.Status = pod.Status
	cold.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode = 0
	if ended(cold) {
		t.Error("a pod that was made for its sandbox has ended, although it is restarted")
	}
}
