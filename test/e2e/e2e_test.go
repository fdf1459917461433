// Package e2e holds the end-to-end tests of what users are promised, on real
// sandboxes, through the library. Each test runs with every launcher. The tests run
// in parallel because they mostly wait, so each has its own sandboxes.
package e2e

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// overEach runs a test on a sandbox of each launcher, in parallel.
func overEach(t *testing.T, test func(t *testing.T, s *launcher.Sandbox)) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		s, err := l.Launch(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s)
	})
}

// overEachLauncher runs a test with each launcher, the local one at each level, and in a pod under gVisor, in
// parallel. The test also gets a Spec with the launcher's requirements.
func overEachLauncher(t *testing.T, test func(t *testing.T, l launcher.Launcher, spec launcher.Spec)) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		test(t, launchertest.Local(t), launcher.Spec{ID: t.Name()})
	})
	overEachLevel(t, func(t *testing.T, l *launcher.Local) { test(t, l, launcher.Spec{ID: t.Name()}) })
	t.Run("kubernetes", func(t *testing.T) {
		t.Parallel()
		c := launchertest.NewCluster(t, launcher.Restricted)
		test(t, c.Launcher(), c.Spec(t.Name()))
	})
	if runsOverAGateway(t.Name()) {
		t.Run("remote", func(t *testing.T) {
			t.Parallel()
			l, spec := overLocalGateway(t)
			test(t, l, spec)
		})
	}
	if runsOverAGatewayOfPods(t.Name()) {
		t.Run("remote pods", func(t *testing.T) {
			t.Parallel()
			l, spec := overPodsGateway(t)
			test(t, l, spec)
		})
	}
	if runsUnderGVisor(t.Name()) {
		t.Run("gvisor", func(t *testing.T) {
			t.Parallel()
			l, spec := underGVisor(t)
			test(t, l, spec)
		})
	}
}

// loads are tests of many processes and bytes. They cost much, and show of isolated local sandboxes what others show
// already; the limit of processes is lower there, too.
var loads = []string{
	"TestRoundTripOf1GiBKeepsTheAgentUnder64MiB", "TestStdinThroughCatIsIdenticalAndKeepsTheAgentUnder64MiB", "TestFSPassesTestFS",
	"Test10000OrphansBeside1000ExecsLeaveNoZombieAndNoWrongStatus", "TestExecOutputOf100MBIsCompleteAndInOrder", "Test500ExecsAtOnce",
	"TestLazySandboxTerminatesWhatItLaunched", "TestCloseAfterTerminateLeavesTheNextSandboxAlone", "TestExecContextEndFreesAnOutputThatNobodyReads",
	"Test200ConnectionsToAPortAtOnce", "TestWhatAConnectionCarriesEachWayIsIdentical",
}

// overEachLevel runs a test with a local launcher at each level that isolates, in parallel, unless it is one of the
// loads: users get one of these levels unless they say otherwise.
func overEachLevel(t *testing.T, test func(t *testing.T, l *launcher.Local)) {
	t.Helper()
	if slices.Contains(loads, t.Name()) {
		return
	}
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run("local at "+string(level), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			l.Isolation = isolation.Mode(level)
			test(t, l)
		})
	}
}

// agentPID returns the process id of a local sandbox's agent.
func agentPID(t *testing.T, s *launcher.Sandbox) int {
	t.Helper()
	out, _, _ := harness.Run(t, s, "echo $PPID", nil)
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// killAgent ends an agent as a crash would.
func killAgent(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
