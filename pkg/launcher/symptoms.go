package launcher

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// symptoms tell a pod that is slow from one that will not start. Times are
// counted from when a symptom was first seen here, as clocks differ.
type symptoms struct {
	pulling       bool      // the last state was that of a failed pull
	failedPulls   int       // how often one was seen to fail
	unschedulable time.Time // since when no node can hold it
	fresh         bool      // unschedulable has just been set
}

// errLookAgain is the cause of a context that ends because the symptoms are
// to be looked at again, though nothing has happened.
var errLookAgain = errors.New("time to look again")

// until returns a context that ends when the symptoms may mean more than
// they do now.
func (s *symptoms) until(ctx context.Context) (context.Context, context.CancelFunc) {
	s.fresh = false
	if s.unschedulable.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, s.unschedulable.Add(schedulePatience), errLookAgain)
}

// isNew reports whether a symptom has come that until did not know.
func (s *symptoms) isNew() bool { return s.fresh }

// read looks at the pod's present state, and returns why it will not become
// ready: no class means that it still may.
func (s *symptoms) read(pod *corev1.Pod) (class error, reason, message string) {
	if message, stuck := s.readScheduling(pod); stuck {
		return ErrUnschedulable, corev1.PodReasonUnschedulable, message
	}
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if w := status.State.Waiting; w != nil {
			if class := s.readWaiting(w.Reason); class != nil {
				return class, w.Reason, last(status, w.Message)
			}
		} else {
			s.pulling = false
		}
	}
	return nil, "", ""
}

// readScheduling reports whether no node could hold the pod for as long as an
// autoscaler may need to begin.
func (s *symptoms) readScheduling(pod *corev1.Pod) (message string, stuck bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
			continue
		}
		if s.unschedulable.IsZero() {
			s.unschedulable, s.fresh = time.Now(), true
		}
		return c.Message, time.Since(s.unschedulable) >= schedulePatience
	}
	s.unschedulable = time.Time{}
	return "", false
}

// readWaiting returns what the kubelet's reason for a container to wait means.
// The reasons are those of kubernetes/pkg/kubelet/images/types.go and
// kubernetes/pkg/kubelet/container/sync_result.go.
func (s *symptoms) readWaiting(reason string) error {
	switch reason {
	case "ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed":
		if !s.pulling {
			s.failedPulls++
		}
		s.pulling = true
		if s.failedPulls >= 2 { // the first may have been an accident
			return ErrImage
		}
		return nil
	case "ImagePullBackOff":
		// A failure, also if the state in which it failed was not seen.
		s.failedPulls = max(s.failedPulls, 1)
	case "InvalidImageName", "ErrImageNeverPull", "ImageInspectError":
		return ErrImage
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return ErrCannotStart
	case "CrashLoopBackOff":
		return ErrCrashLoop
	}
	s.pulling = false
	return nil
}

// last adds to a message how the container last ended.
func last(status corev1.ContainerStatus, message string) string {
	if t := status.LastTerminationState.Terminated; t != nil {
		message += "; it last ended: " + exitOf(t)
	}
	return message
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
