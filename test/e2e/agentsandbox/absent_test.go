package agentsandbox

import (
	"errors"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// This test is the first, by the name of its file and without t.Parallel: the others install
// agent-sandbox.
func TestClusterWithoutAgentSandbox(t *testing.T) {
	c := launchertest.OwnCluster(t, launcher.Restricted) // its resources go
	controller.Lock()
	defer controller.Unlock()
	if controller.stop != nil {
		t.Fatal("a test has installed agent-sandbox before this one")
	}
	admin := *c
	admin.Orchestrator = c.Admin
	c.RemoveAgentSandbox(t)
	pooled := c.Spec("a")
	pooled.Take.Pool = warm
	for _, spec := range []launcher.Spec{c.Spec("a"), pooled} {
		if err := fails(t, launcherOf(&admin), spec); !errors.Is(err, agentsandbox.ErrNotInstalled) {
			t.Errorf("without the resources: %v", err)
		}
	}
	checkFinding(t, &admin, "", "resources", agentsandbox.ErrNotInstalled)
	c.InstallAgentSandbox(t)
	for _, spec := range []launcher.Spec{c.Spec("a"), pooled} {
		if err := fails(t, launcherOf(&admin), spec); !errors.Is(err, agentsandbox.ErrNoController) {
			t.Errorf("without a controller: %v", err)
		}
	}
	checkNothingLeft(t, &admin)
}
