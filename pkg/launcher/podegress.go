package launcher

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// checkEgress returns ErrEgress if commands are kept from the network by less than the Spec
// requires, or the one that the pod was made from. The agent is asked although it ends by itself
// then: one that is too old for that ignores its flags.
func (o *openPod) checkEgress(spec *Spec, info podapi.Info) error {
	required := stronger(spec.Egress.Require, madeFrom(o.pod).EgressRequire)
	if why := unmet(required, info.Egress); why != "" {
		return o.podError(o.pod, ErrEgress, "", why)
	}
	if asked := spec.egress().Mode; asked != "" && !info.Egress.Level.AtLeast(wayout.Landlock) {
		o.log.Warn(ErrEgress.Error(), "sandbox", o.pod.Annotations[podmeta.AnnotationID], "mode", asked, "missing", info.Egress.Missing)
	}
	return nil
}

// isTunnelled reports whether the cluster is asked to let nothing out of a pod.
func isTunnelled(pod *corev1.Pod) bool {
	return pod.Labels[podmeta.LabelEgress] == podmeta.ByTunnel
}

// leaked returns the end of an agent whose commands could have left the sandbox by more ways than they
// may, unless it runs again.
func leaked(pod *corev1.Pod, status corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	t := status.State.Terminated
	if t == nil && status.State.Waiting != nil {
		t = status.LastTerminationState.Terminated
	}
	if status.Name != containerName || t == nil || t.ExitCode != wayout.ExitStatus || madeFrom(pod).Egress == "" {
		return nil
	}
	return t
}

// madeFrom returns what a pod was made from, as far as it says so readably.
func madeFrom(pod *corev1.Pod) (made traits) {
	_ = json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made)
	return made
}
