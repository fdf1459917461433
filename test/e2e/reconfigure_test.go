package e2e

import (
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// A sandbox has what the latest launch asked for. An earlier one whose connection was cut does
// not ask again, unless the agent has restarted.
func TestConnectionMadeAnewDoesNotConfigureTheSameAgent(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	w, cut := harness.WireTo(t, c)
	spec := c.Spec("a")
	harness.Launch(t, c.Launcher(), spec)
	spec.Env = []string{"FROM=first"}
	first := harness.Launch(t, cut, spec)
	spec.Env = []string{"FROM=second"}
	harness.Launch(t, c.Launcher(), spec)
	w.Reset()
	harness.Await(t, "another connection", func() bool { return first.Healthy(t.Context()) == nil })
	if out, _, err := harness.Run(t, first, "echo $FROM", nil); out != "second\n" {
		t.Errorf("it says %q: %v", out, err)
	}
}
