// Package agentsandbox tests sandboxes that agent-sandbox's controller makes, with that
// controller.
package agentsandbox

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// rbac are the permissions of launchers.
var rbac = filepath.Join("..", "..", "..", "deploy", "agent-sandbox-rbac.yaml")

// controller is the running controller, which all tests share.
var controller struct {
	sync.Mutex
	stop func() // nil before it runs
}

func TestMain(m *testing.M) {
	code := m.Run()
	if controller.stop != nil {
		controller.stop()
	}
	os.Exit(code)
}

// withController returns a cluster in which agent-sandbox is installed and its controller runs.
func withController(t *testing.T) *launchertest.Cluster {
	t.Helper()
	c := launchertest.OwnCluster(t, launcher.Restricted) // a controller is for the whole cluster
	controller.Lock()
	defer controller.Unlock()
	if controller.stop == nil {
		c.InstallAgentSandbox(t)
		controller.stop = c.StartAgentSandbox(t)
	}
	if err := c.Apply(t.Context(), rbac); err != nil {
		t.Fatal(err)
	}
	return c
}

// launcherOf returns a launcher of the cluster.
func launcherOf(c *launchertest.Cluster) *agentsandbox.Launcher {
	return &agentsandbox.Launcher{Cluster: c.Launcher()}
}

// apply creates the objects of a YAML text in the test's namespace.
func apply(t *testing.T, c *launchertest.Cluster, text []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), path); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}
