package e2e

import (
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file have faults strike in the middle of calls, and cut
// connections again and again. What disrupts a whole cluster is in disrupt/.

func TestKilledContainerDuringCalls(t *testing.T) {
	overEachWayHarmed(t, func(t *testing.T, c *launchertest.Cluster) {
		s := harness.Launch(t, c.Launcher(), c.Spec(t.Name()))
		harness.TestFault(t, s, true, func() { c.KillAgent(t, podUID(t, s)) })
	})
}

func TestCutDuringCalls(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*harness.Wire) int{
		"connection reset": (*harness.Wire).Reset,
		"connection ended": (*harness.Wire).Finish,
		"connection stuck": (*harness.Wire).Stick, // which keepalive finds
	} {
		t.Run(name, func(t *testing.T) {
			overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
				w, l := harness.WireTo(t, c)
				s := harness.Launch(t, l, c.Spec(t.Name()))
				harness.TestFault(t, s, false, func() { cut(w) })
			})
		})
	}
}

func podUID(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.PodUID
}

// Locally, pkg/podapi tests the same.
func Test200MBOfOutputAcrossTwentyCutsAreIdentical(t *testing.T) {
	overEachWire(t, func(t *testing.T, s *launcher.Sandbox, w *harness.Wire) {
		harness.TestOutputAcrossCuts(t, s, w, func() { w.Finish() })
	})
}

func Test200MBOfInputAcrossTwentyCutsAreIdentical(t *testing.T) {
	overEachWire(t, func(t *testing.T, s *launcher.Sandbox, w *harness.Wire) {
		harness.TestInputAcrossCuts(t, s, w, func() { w.Finish() })
	})
}

// overEachWire runs a test over each way to a pod through a proxy.
func overEachWire(t *testing.T, test func(t *testing.T, s *launcher.Sandbox, w *harness.Wire)) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		w, l := harness.WireTo(t, c)
		test(t, harness.Launch(t, l, c.Spec(t.Name())), w)
	})
}
