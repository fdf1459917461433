package podmeta

import "encoding/json"

// SetLabels makes AnnotationLabels say these labels.
func SetLabels(annotations, labels map[string]string) {
	if len(labels) == 0 {
		return
	}
	data, _ := json.Marshal(labels) // cannot fail
	annotations[AnnotationLabels] = string(data)
}

// LabelsIn returns the labels that AnnotationLabels says; nil if it says none readably.
func LabelsIn(annotations map[string]string) map[string]string {
	var labels map[string]string
	if json.Unmarshal([]byte(annotations[AnnotationLabels]), &labels) != nil {
		return nil
	}
	return labels
}
