package launcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// driftOf says in what the pod differs from what spec asks for.
func driftOf(pod *corev1.Pod, spec *Spec) []string {
	var is map[string]any
	if err := json.Unmarshal([]byte(pod.Annotations[AnnotationSpec]), &is); err != nil {
		return []string{fmt.Sprintf("it is not known what the pod was made from: annotation %s: %v", AnnotationSpec, err)}
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

// text returns a trait for people, and for comparison: maps are sorted in it.
func text(v any) string {
	if v == nil {
		return "unset"
	}
	data, _ := json.Marshal(v) // it was JSON
	return string(data)
}
