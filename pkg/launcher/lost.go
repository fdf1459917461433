package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podagent/podagent/internal/delay"
)

// reasonOOMKilled is the node's reason for a container that the kernel killed
// because it was out of memory.
const reasonOOMKilled = "OOMKilled"

// whyLost returns what the cluster says has become of the agent: the pod is gone or
// has ended, its container has ended, or its node does not answer. The node may
// need a while to report that. The result is nil if nothing is known when ctx ends,
// if the permission is missing, or if another owner has the agent by now.
func (o *openPod) whyLost(ctx context.Context) error {
	for ; ctx.Err() == nil; delay.For(ctx, apiRetry) {
		if err := o.isDead(); errors.Is(err, ErrOwned) {
			return nil
		} else if err != nil {
			return err
		}
		pod, err := o.get(ctx, o.pod.Name)
		switch {
		case apierrors.IsNotFound(err):
			return o.podError(o.pod, ErrGone, "", "it was deleted")
		case o.access.isRefused() || isRefusal(err):
			return nil
		case err != nil: // the API server is away, and may come back
			continue
		}
		if err := o.lost(ctx, pod); err != nil {
			return err
		}
		if err := o.mishap(pod); err != nil {
			return err
		}
	}
	return nil
}

// mishap returns what has happened to a pod that still exists; nil if nothing has.
func (o *openPod) mishap(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionUnknown {
			return o.podError(pod, ErrNodeLost, c.Reason, c.Message)
		}
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != containerName {
			continue
		}
		for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
			if end := state.Terminated; end != nil && time.Since(end.FinishedAt.Time).Abs() < endIsRecent {
				return o.podError(pod, ErrContainerEnded, end.Reason, endOf(end))
			}
		}
	}
	return nil
}

// endOf describes how a container ended, in addition to the cluster's own word.
func endOf(end *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", end.ExitCode)
	signal := end.Signal
	if signal == 0 && end.ExitCode > 128 && end.ExitCode <= 128+maxSignal {
		signal = end.ExitCode - 128 // by the convention of runtimes
	}
	if signal != 0 {
		text = fmt.Sprintf("signal %d", signal)
	}
	if end.Reason == reasonOOMKilled {
		text = "it was killed because it was out of memory"
	}
	if end.Message != "" {
		text += ": " + end.Message
	}
	return text
}
