package launcher

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// checkForm returns ErrNewer for an object of a pod that only a newer orchestrator may change or
// delete: the pod, its claim or its holding. Whoever reads one by its name gets this error with it
// (get, claim, held). What comes out of a list is checked where it is used.
func (c *cluster) checkForm(pod, what string, object metav1.Object) error {
	if problem := podmeta.NewerForm(object.GetAnnotations()); problem != "" {
		return &PodError{Pod: c.namespace + "/" + pod, Class: ErrNewer, Message: what + " " + problem}
	}
	return nil
}
