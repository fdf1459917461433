package harness

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// Label gives a sandbox's pod a label.
func Label(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox, key, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
	_, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), s.PodName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
