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
	var made traits
	_ = json.Unmarshal([]byte(o.pod.Annotations[podmeta.AnnotationSpec]), &made) // what is unreadable requires nothing
	required := stronger(spec.Egress.Require, made.EgressRequire)
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
