package launcher

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// waiting returns a pod whose container waits for this reason, after a run of
// so long.
func waiting(reason string, ran time.Duration) *corev1.Pod {
	status := corev1.ContainerStatus{Name: containerName, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	if ran > 0 {
		end := metav1.Now()
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			StartedAt: metav1.NewTime(end.Add(-ran)), FinishedAt: end, ExitCode: 137, Reason: "OOMKilled",
		}
	}
	return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
}

// notStarted returns a pod whose container the runtime could not start, which
// is its present state or, if it waits for a reason, its last.
func notStarted(reason string) *corev1.Pod {
	ended := &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, StartedAt: metav1.Unix(0, 0), FinishedAt: metav1.Now()}
	if reason == "" {
		return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: containerName, State: corev1.ContainerState{Terminated: ended},
		}}}}
	}
	pod := waiting(reason, 0)
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = ended
	return pod
}

func unschedulable() *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
	}}}}
}

// leaking returns a pod whose agent has ended because commands could have left the sandbox, after a run of
// so long, if the sandbox was made to keep them in.
func leaking(ran time.Duration, egress wayout.Config) *corev1.Pod {
	pod := waiting("CrashLoopBackOff", ran)
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode = wayout.ExitStatus
	pod.Annotations = map[string]string{podmeta.AnnotationSpec: string(traitsOf(&Spec{Egress: egress}).json())}
	return pod
}

func TestSymptomsTellSlowFromBroken(t *testing.T) {
	running := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: containerName, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	for _, tt := range []struct {
		name   string
		states []*corev1.Pod
		want   error // after the last
	}{
		{"it starts", []*corev1.Pod{waiting("ContainerCreating", 0), running}, nil},
		{"one pull failed", []*corev1.Pod{waiting("ErrImagePull", 0)}, nil},
		{"one pull failed, said twice", []*corev1.Pod{waiting("ErrImagePull", 0), waiting("ErrImagePull", 0)}, nil},
		{"one pull failed, and is backed off", []*corev1.Pod{waiting("ErrImagePull", 0), waiting("ImagePullBackOff", 0)}, nil},
		{"two pulls failed", []*corev1.Pod{waiting("ErrImagePull", 0), waiting("ImagePullBackOff", 0), waiting("ErrImagePull", 0)}, ErrImage},
		{"two pulls failed, one before", []*corev1.Pod{waiting("ImagePullBackOff", 0), waiting("ErrImagePull", 0)}, ErrImage},
		{"no image can have that name", []*corev1.Pod{waiting("InvalidImageName", 0)}, ErrImage},
		{"it would let commands out", []*corev1.Pod{leaking(11*time.Second, wayout.Config{Mode: wayout.Auto})}, ErrEgress},
		{"its command ended with the same status", []*corev1.Pod{leaking(time.Second, wayout.Config{})}, ErrCrashLoop},
		{"it cannot start", []*corev1.Pod{waiting("RunContainerError", 0)}, ErrCannotStart},
		{"its start failed", []*corev1.Pod{notStarted("")}, ErrCannotStart},
		{"its start failed again and again", []*corev1.Pod{notStarted("CrashLoopBackOff")}, ErrCannotStart},
		{"it ends at once, again and again", []*corev1.Pod{waiting("CrashLoopBackOff", time.Second)}, ErrCrashLoop},
		{"it was killed after a while", []*corev1.Pod{waiting("CrashLoopBackOff", time.Hour)}, nil},
		{"no node yet", []*corev1.Pod{unschedulable()}, nil},
	} {
		var s symptoms
		var class error
		for _, pod := range tt.states {
			_, _, class = s.read(pod)
		}
		if class != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, class, tt.want)
		}
	}
}

func TestSymptomsThatLastMeanMore(t *testing.T) {
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want error
	}{
		"no node":  {unschedulable(), ErrUnschedulable},
		"no image": {waiting("ImagePullBackOff", 0), ErrImage},
	} {
		var s symptoms
		if _, _, class := s.read(tt.pod); class != nil || !s.isNew() {
			t.Errorf("%s: at first it is %v", name, class)
		}
		ctx, cancel := s.until(t.Context())
		if end, ok := ctx.Deadline(); !ok || time.Until(end) > schedulePatience {
			t.Errorf("%s: the next look is at %v, %v", name, end, ok)
		}
		cancel()
		// As if it had been seen that long ago.
		for _, symptom := range []*symptom{&s.unschedulable, &s.unpullable} {
			if !symptom.end.IsZero() {
				symptom.end = time.Now()
			}
		}
		if _, _, class := s.read(tt.pod); class != tt.want {
			t.Errorf("%s: later it is %v", name, class)
		}
	}
}
