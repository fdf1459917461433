// Package disrupt holds the end-to-end tests that disturb others on the cluster or
// its machine: they restart parts of the cluster, or use up the machine. They run
// one after the other, while no other test runs on the cluster.
package disrupt

import (
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestRestartDuringCalls(t *testing.T) {
	for name, component := range map[string]string{
		"API server restarted": "apiserver",
		"kubelet restarted":    "kubelet",
	} {
		t.Run(name, func(t *testing.T) {
			for _, way := range launcher.Connections() {
				t.Run(string(way), func(t *testing.T) {
					c := launchertest.DisruptedCluster(t, launcher.Restricted).By(t, way)
					s := harness.Launch(t, c.Launcher(), c.Spec(t.Name()))
					harness.TestFault(t, s, false, func() { c.Restart(t, component) })
				})
			}
		})
	}
}

// restartable launches a sandbox that is reached by a port-forward. The worst that
// can happen to that is a restart of the API server.
func restartable(t *testing.T) (s *launcher.Sandbox, w *harness.Wire, restart func()) {
	t.Helper()
	c := launchertest.DisruptedCluster(t, launcher.Restricted)
	w, l := harness.WireTo(t, c)
	return harness.Launch(t, l, c.Spec(t.Name())), w, func() { c.Restart(t, "apiserver") }
}

func Test200MBOfOutputAcrossTwentyCutsAndARestartAreIdentical(t *testing.T) {
	s, w, restart := restartable(t)
	harness.TestOutputAcrossCuts(t, s, w, restart)
}

func Test200MBOfInputAcrossTwentyCutsAndARestartAreIdentical(t *testing.T) {
	s, w, restart := restartable(t)
	harness.TestInputAcrossCuts(t, s, w, restart)
}

func TestConnectionToAPortDoesNotOutliveARestart(t *testing.T) {
	s, _, restart := restartable(t)
	harness.TestPortAcrossCuts(t, s, map[string]func(){"a restart": restart})
}
