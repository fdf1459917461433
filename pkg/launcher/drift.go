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

// driftOf lists how the pod differs from spec.
func driftOf(pod *corev1.Pod, spec *Spec) []string {
	var is map[string]any
	if err := json.Unmarshal([]byte(pod.Annotations[podmeta.AnnotationSpec]), &is); err != nil {
		return []string{fmt.Sprintf("it is not known what the pod was made from: annotation %s: %v", podmeta.AnnotationSpec, err)}
	}
	// As JSON, equal quantities compare as equal, and traits of a newer launcher are
	// included.
	var want map[string]any
	_ = json.Unmarshal(traitsOf(spec).json(), &want) // it was just made
	if !spec.Pod.Workspace.Owned {
		delete(is, "workspaceOwned") // nobody minds
	}
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

// adoptedDrift lists how an existing pod and its claim differ from spec.
func (c *cluster) adoptedDrift(ctx context.Context, pod *corev1.Pod, spec *Spec) []string {
	return append(driftOf(pod, spec), c.claimDrift(ctx, pod, spec.Pod.Workspace)...)
}

// createdDrift lists how the claim of a new pod differs from spec, if the claim
// existed before.
func (c *cluster) createdDrift(ctx context.Context, pod *corev1.Pod, spec *Spec) []string {
	if pod.Annotations[podmeta.AnnotationResumed] == "" {
		return nil
	}
	return c.claimDrift(ctx, pod, spec.Pod.Workspace)
}

// claimDrift lists how the pod's own claim differs from the workspace that was
// asked for.
func (c *cluster) claimDrift(ctx context.Context, pod *corev1.Pod, w Workspace) []string {
	if !ownClaim(pod) || w.Size.IsZero() && w.StorageClass == "" && !w.Owned {
		return nil
	}
	claim, err := c.claimOfPod(ctx, pod)
	if err != nil { // adopting a pod must work without permission for claims
		c.log.Warn("cannot look at the claim of a workspace", "pod", pod.Name, "error", err)
		return nil
	}
	return w.driftOf(claim)
}

// driftOf lists how an existing claim, which is never changed, differs from w.
func (w Workspace) driftOf(claim *corev1.PersistentVolumeClaim) []string {
	var drift []string
	if size := claim.Spec.Resources.Requests[corev1.ResourceStorage]; !w.Size.IsZero() && size.Cmp(w.Size) != 0 {
		drift = append(drift, fmt.Sprintf("the claim's size is %s, not %s", &size, &w.Size))
	}
	if class := claim.Spec.StorageClassName; w.StorageClass != "" && class != nil && *class != w.StorageClass {
		drift = append(drift, fmt.Sprintf("the claim's storage class is %s, not %s", *class, w.StorageClass))
	}
	switch {
	case !w.Owned || hasOwned(claim):
	case claim.Annotations[podmeta.AnnotationFilesIn] == "":
		drift = append(drift, "the claim's files are in the root of its volume, which is not the sandbox's")
	default:
		drift = append(drift, "the claim's files are in a directory that is not the sandbox's")
	}
	return drift
}

// text returns a trait for people and for comparison. Its maps are sorted.
func text(v any) string {
	if v == nil {
		return "unset"
	}
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}
