package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// driftOf says in what the pod differs from what spec asks for.
func driftOf(pod *corev1.Pod, spec *Spec) []string {
	var is map[string]any
	if err := json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &is); err != nil {
		return []string{fmt.Sprintf("it is not known what the pod was made from: annotation %s: %v", podmeta.AnnotationSpec, err)}
	}
	// By JSON, in which equal quantities are equal, and a newer launcher's
	// traits are seen.
	var want map[string]any
	_ = json.Unmarshal(traitsOf(spec).json(), &want) // it was just made
	all := maps.Clone(want)
	maps.Copy(all, is)
	var drift []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if a, b := text(is[name]), text(want[name]); a != b {
			drift = append(drift, fmt.Sprintf("%s is %s, not %s", name, a, b))
		}
	}
	return drift
}

// adoptedDrift says in what a pod that existed, and its claim, differ from what
// spec asks for.
func (c *cluster) adoptedDrift(ctx context.Context, pod *corev1.Pod, spec *Spec) []string {
	return append(driftOf(pod, spec), c.claimDrift(ctx, pod, spec.Pod.Workspace)...)
}

// createdDrift says in what the claim that a new pod was given differs from what
// spec asks for, if it existed.
func (c *cluster) createdDrift(ctx context.Context, pod *corev1.Pod, spec *Spec) []string {
	if pod.Annotations[podmeta.AnnotationResumed] == "" {
		return nil
	}
	return c.claimDrift(ctx, pod, spec.Pod.Workspace)
}

// claimDrift says in what the pod's own claim differs from what is asked for.
func (c *cluster) claimDrift(ctx context.Context, pod *corev1.Pod, w Workspace) []string {
	if !ownClaim(pod) || w.Size.IsZero() && w.StorageClass == "" {
		return nil
	}
	claim, err := c.claim(ctx, pod.Name)
	if err != nil { // adopting a pod takes no permission for claims
		c.log.Warn("cannot look at the claim of a workspace", "pod", pod.Name, "error", err)
		return nil
	}
	return w.driftOf(claim)
}

// driftOf says in what a claim differs from what is asked for, since none is changed
// once it is there.
func (w Workspace) driftOf(claim *corev1.PersistentVolumeClaim) []string {
	var drift []string
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; !w.Size.IsZero() && size.Cmp(w.Size) != 0 {
		drift = append(drift, fmt.Sprintf("the claim's size is %s, not %s", &size, &w.Size))
	}
	if class := claim.Spec.StorageClassName; w.StorageClass != "" && class != nil && *class != w.StorageClass {
		drift = append(drift, fmt.Sprintf("the claim's storage class is %s, not %s", *class, w.StorageClass))
	}
	return drift
}

// text returns a trait for people, and for comparison: maps are sorted in it.
func text(v any) string {
	if v == nil {
		return "unset"
	}
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}
