package e2e

import (
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// In the tests of this file, faults strike in the middle of calls, and connections
// are cut again and again. Tests that disrupt the whole cluster are in disrupt/.

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
		"connection stuck": (*harness.Wire).Stick, // keepalive detects it
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

// pkg/podapi has the same test for local sandboxes.
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

// overEachWire runs a test for each way to a pod, through a proxy.
func overEachWire(t *testing.T, test func(t *testing.T, s *launcher.Sandbox, w *harness.Wire)) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		w, l := harness.WireTo(t, c)
		test(t, harness.Launch(t, l, c.Spec(t.Name())), w)
	})
}
