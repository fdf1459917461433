package launcher

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// knownForm is the newest form of the protocol between orchestrators that this version knows.
const knownForm = 1

// checkForm returns ErrNewer for an object of a pod that only a newer orchestrator may change or
// delete: the pod, its claim or its holding. Whoever reads one by its name gets this error with it
// (get, claim, heldPod). What comes out of a list is checked where it is used.
func (c *cluster) checkForm(pod, what string, object metav1.Object) error {
	if problem := newerForm(object); problem != "" {
		return &PodError{Pod: c.namespace + "/" + pod, Class: ErrNewer, Message: what + " " + problem}
	}
	return nil
}

// newerForm says that an object is of a form that this version does not know; empty if it knows
// it.
func newerForm(object metav1.Object) string {
	form, ok := object.GetAnnotations()[podmeta.AnnotationForm]
	if !ok {
		return ""
	}
	if n, err := strconv.Atoi(form); err == nil && n >= 1 && n <= knownForm {
		return ""
	}
	return fmt.Sprintf("is of form %.20q, and this orchestrator knows form %d: update the orchestrator", form, knownForm)
}
