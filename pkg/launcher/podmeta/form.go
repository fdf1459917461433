package podmeta

import (
	"fmt"
	"strconv"
)

// knownForm is the newest form of the protocol between launchers that this version knows: see
// AnnotationForm.
const knownForm = 3

// NewerForm says that an object with these annotations is of a form that this version does not
// know, and what to do; empty if it knows it.
func NewerForm(annotations map[string]string) string {
	form, ok := annotations[AnnotationForm]
	if !ok {
		return ""
	}
	if n, err := strconv.Atoi(form); err == nil && n >= 1 && n <= knownForm {
		return ""
	}
	return fmt.Sprintf("is of form %.20q, and this orchestrator knows forms up to %d: update the orchestrator", form, knownForm)
}
