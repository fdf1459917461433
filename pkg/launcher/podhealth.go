package launcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// symptoms tell a slow pod from one that will not start. Times count from when this
// launcher first saw a symptom, because clocks differ.
type symptoms struct {
	unschedulable symptom // no node can hold it
	unpullable    symptom // the image could not be pulled
	pulling       bool    // the last state was a failed pull
	failedPulls   int     // how many failed pulls were seen
	fresh         bool    // a symptom has been seen for the first time
}

// A symptom is tolerated until its end.
type symptom struct{ end time.Time }

// crashLoop is the kubelet's reason for a container that waits to be started
// again because it has ended more than once.
const crashLoop = "CrashLoopBackOff"

// unboundClaims is what the scheduler says of a pod whose claims have no volume
// yet (kubernetes/pkg/scheduler/framework/plugins/volumebinding).
const unboundClaims = "unbound immediate PersistentVolumeClaims"

// errLookAgain is the cause of a context that ends because the symptoms must be
// checked again, although nothing has happened.
var errLookAgain = errors.New("time to look again")

// until returns a context that ends when a symptom's patience may be over.
func (s *symptoms) until(ctx context.Context) (context.Context, context.CancelFunc) {
	s.fresh = false
	cancel := func() {}
	for _, symptom := range []symptom{s.unschedulable, s.unpullable} {
		// A symptom whose end is past has been judged already.
		if symptom.end.After(time.Now()) {
			outer := cancel
			var inner context.CancelFunc
			ctx, inner = context.WithDeadlineCause(ctx, symptom.end, errLookAgain)
			cancel = func() { inner(); outer() }
		}
	}
	ctx, last := context.WithCancel(ctx)
	return ctx, func() { last(); cancel() }
}

// isNew reports whether a symptom has appeared since until was called.
func (s *symptoms) isNew() bool { return s.fresh }

// see notes a symptom, and reports whether it has lasted too long.
func (s *symptoms) see(what *symptom, patience time.Duration) bool {
	if what.end.IsZero() {
		what.end, s.fresh = time.Now().Add(patience), true
	}
	return !time.Now().Before(what.end)
}

// read examines the pod's present state, and returns why the pod will not become
// ready. Without a class it still may.
func (s *symptoms) read(pod *corev1.Pod) (reason, message string, class error) {
	if message, stuck := s.readScheduling(pod); stuck {
		return corev1.PodReasonUnschedulable, message, ErrUnschedulable
	}
	for _, status := range needed(pod) {
		if t := neverRan(status); t != nil {
			return t.Reason, t.Message, ErrCannotStart
		}
		if t := leaked(pod, status); t != nil {
			return t.Reason, t.Message, ErrEgress
		}
		if w := status.State.Waiting; w != nil {
			if class := s.readWaiting(w.Reason); class != nil && !isRecovering(status) {
				return w.Reason, last(status, w.Message), class
			}
		} else {
			s.pulling, s.unpullable = false, symptom{}
		}
	}
	return "", "", nil
}

// needed returns the containers that the agent needs to run. Injected sidecars are
// not among them.
func needed(pod *corev1.Pod) []corev1.ContainerStatus {
	statuses := slices.Clone(pod.Status.InitContainerStatuses)
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == containerName {
			statuses = append(statuses, s)
		}
	}
	return statuses
}

// readScheduling reports whether no node could hold the pod for as long as an
// autoscaler may need to begin.
func (s *symptoms) readScheduling(pod *corev1.Pod) (message string, stuck bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		if strings.Contains(c.Message, unboundClaims) {
			break // storage may take longer than the patience for a node
		}
		return c.Message, s.see(&s.unschedulable, schedulePatience)
	}
	s.unschedulable = symptom{}
	return "", false
}

// readWaiting returns the meaning of the kubelet's reason why a container waits.
// The reasons are those of kubernetes/pkg/kubelet/images/types.go and
// kubernetes/pkg/kubelet/container/sync_result.go.
func (s *symptoms) readWaiting(reason string) error {
	switch reason {
	case "ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed":
		if !s.pulling {
			s.failedPulls++
		}
		s.pulling = true
		if s.see(&s.unpullable, pullPatience) || s.failedPulls >= 2 { // the first may have been an accident
			return ErrImage
		}
		return nil
	case "ImagePullBackOff":
		// This counts as a failure even if its own state was not seen.
		s.failedPulls, s.pulling = max(s.failedPulls, 1), false
		if s.see(&s.unpullable, pullPatience) {
			return ErrImage
		}
		return nil
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return ErrImage
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return ErrCannotStart
	case crashLoop:
		return ErrCrashLoop
	}
	s.pulling = false
	return nil
}

// neverRan returns the end of a container that the runtime could not start, now or
// in the previous try. containerd says StartError
// (containerd/internal/cri/server/container_start.go), cri-dockerd
// ContainerCannotRun. The container never started, so its times say nothing.
func neverRan(status corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	t := status.State.Terminated
	if t == nil && status.State.Waiting != nil {
		t = status.LastTerminationState.Terminated
	}
	if t != nil && (t.Reason == "StartError" || t.Reason == "ContainerCannotRun") {
		return t
	}
	return nil
}

// isRecovering reports whether a container that had run for a while is about to be
// restarted: it may have been killed, and its image is good.
func isRecovering(status corev1.ContainerStatus) bool {
	t := status.LastTerminationState.Terminated
	return status.State.Waiting.Reason == crashLoop && t != nil && t.FinishedAt.Sub(t.StartedAt.Time) >= crashQuick
}

// last adds to a message how the container last ended.
func last(status corev1.ContainerStatus, message string) string {
	if t := status.LastTerminationState.Terminated; t != nil {
		message += "; it last ended: " + exitOf(t)
	}
	return message
}
