package agentsandbox

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// This test is the first, by the name of its file and without t.Parallel: the others install
// agent-sandbox.
func TestClusterWithoutAgentSandbox(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	controller.Lock()
	defer controller.Unlock()
	if controller.process != nil {
		t.Fatal("a test has installed agent-sandbox before this one")
	}
	admin := *c
	admin.Orchestrator = c.Admin
	removeResources(t, c)
	pooled := c.Spec("a")
	pooled.Take.Pool = warm
	for _, spec := range []launcher.Spec{c.Spec("a"), pooled} {
		if err := fails(t, &admin, spec); !errors.Is(err, agentsandbox.ErrNotInstalled) {
			t.Errorf("without the resources: %v", err)
		}
	}
	checkFinding(t, &admin, "", "resources", agentsandbox.ErrNotInstalled)
	installResources(t, c)
	for _, spec := range []launcher.Spec{c.Spec("a"), pooled} {
		if err := fails(t, &admin, spec); !errors.Is(err, agentsandbox.ErrNoController) {
			t.Errorf("without a controller: %v", err)
		}
	}
	checkNothingLeft(t, &admin)
}

// removeResources removes what an earlier run has installed.
func removeResources(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	api := crdsOf(t, c)
	for _, name := range []string{
		"sandboxes.agents.x-k8s.io", "sandboxclaims.extensions.agents.x-k8s.io",
		"sandboxtemplates.extensions.agents.x-k8s.io", "sandboxwarmpools.extensions.agents.x-k8s.io",
	} {
		if err := api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		harness.Await(t, "the end of "+name, func() bool {
			_, err := api.Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}
