package launcher

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// checkLabels checks the host's own labels of a sandbox.
func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return &SpecError{"Labels", fmt.Sprintf("has %d: at most %d are allowed", len(labels), maxLabels)}
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return &SpecError{"Labels", fmt.Sprintf("has the name %q: %s", key, problems[0])}
		}
		if problems := validation.IsValidLabelValue(labels[key]); len(problems) > 0 {
			return &SpecError{"Labels", fmt.Sprintf("has %s=%q: %s", key, labels[key], problems[0])}
		}
	}
	return nil
}

// copyLabels makes the sandbox's labels in some annotations those in others.
func copyLabels(to, from map[string]string) {
	delete(to, podmeta.AnnotationLabels)
	if text, ok := from[podmeta.AnnotationLabels]; ok {
		to[podmeta.AnnotationLabels] = text
	}
}
