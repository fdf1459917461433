package launcher

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/internal/uses"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// usesOf says in a summary what the pod of a sandbox uses, or would if the sandbox were resumed, and
// how long it lives. Either may be nil.
func (s *Summary) usesOf(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) {
	var spec corev1.PodSpec
	if pod != nil {
		spec, s.Lifetime = pod.Spec, lifetimeOf(pod)
	}
	var volume *corev1.PersistentVolumeClaimSpec
	if claim != nil {
		volume = &claim.Spec
	}
	s.Resources = uses.Of(&spec, workspaceName, volume)
}

// lifetimeOf returns how long a pod lives unless it is extended; 0 if it has no end.
func lifetimeOf(pod *corev1.Pod) time.Duration {
	var made traits
	if json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &made) == nil {
		if d, err := time.ParseDuration(made.Lifetime); err == nil {
			return d
		}
	}
	if seconds := pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 0
}
