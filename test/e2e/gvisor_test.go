package e2e

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// gVisor is the RuntimeClass of pods under gVisor, which the tests' cluster must have.
const gVisor = "gvisor"

// slowUnderGVisor are tests that take minutes there: calls of the system cost several
// times more. They run at full size only.
var slowUnderGVisor = []string{"TestFSPassesTestFS", "Test500ExecsAtOnce"}

// notUnderGVisor are tests of what gVisor lacks, and why they cannot pass.
var notUnderGVisor = map[string]string{
	"TestRoundTripOf1GiBKeepsTheAgentUnder64MiB":               "its /proc does not tell a process's peak of memory",
	"TestStdinThroughCatIsIdenticalAndKeepsTheAgentUnder64MiB": "the same",
	"Test10000OrphansBeside1000ExecsLeaveNoZombieAndNoWrongStatus": "when the agent stops all processes to end a crowd, gVisor sends SIGHUP to " +
		"groups of which a member ends meanwhile; Linux does so only if that makes the group an orphan",
}

// runsUnderGVisor reports whether a test over each launcher also runs under gVisor.
func runsUnderGVisor(test string) bool {
	if slices.Contains(slowUnderGVisor, test) {
		return os.Getenv(harness.FullEnv) != ""
	}
	return notUnderGVisor[test] == ""
}

// underGVisor returns a launcher, and a Spec of a pod under gVisor. The launcher reaches
// it by exec, because of the name of the class.
func underGVisor(t *testing.T) (*launcher.Kubernetes, launcher.Spec) {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByExec)
	l, spec := c.Launcher(), c.Spec(t.Name())
	l.Connection, spec.Pod.RuntimeClass = "", gVisor
	return l, spec
}

// Each part is what SECURITY.md and docs/pods.md promise under gVisor. A kernel of Linux
// would fail this test, so that the others are not taken for tests of gVisor by mistake.
func TestGVisorConfinesCommandsByItsFilter(t *testing.T) {
	t.Parallel()
	l, spec := underGVisor(t)
	spec.Pod.Confine = "filter"
	s := harness.Launch(t, l, spec)
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"no-new-privileges", "syscall-filter"}; !slices.Equal(info.Confinement, want) {
		t.Errorf("commands are confined by %q, want %q", info.Confinement, want)
	}
	if kernel, _, _ := harness.Run(t, s, "uname -r", nil); !strings.Contains(kernel, "gvisor") {
		t.Errorf("the kernel is %q", kernel)
	}
	if d, err := l.Describe(t.Context(), spec.ID); err != nil || d.Connection != launcher.ByExec {
		t.Errorf("it is reached by %q: %v", d.Connection, err)
	}
}

func TestPodUnderGVisorIsReachedByItsAddressAndByNoPortForward(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByExec) // by which the key is learned
	spec := c.Spec("a")
	spec.Pod.RuntimeClass = gVisor
	harness.Put(t, harness.Launch(t, c.By(t, launcher.ByAddress).Launcher(), spec), "file", "x")

	spec.Take.ReadyTimeout = 10 * time.Second // enough time for a try on any machine
	_, err := c.By(t, launcher.ByPortForward).Launcher().Launch(t.Context(), spec)
	if !errors.Is(err, launcher.ErrNotReady) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("by port-forward: %v", err)
	}
}

func TestPortUnderGVisorIsReached(t *testing.T) {
	t.Parallel()
	l, spec := underGVisor(t)
	s := harness.Launch(t, l, spec)
	ports := harness.StartServer(t, s)
	if got := fetch(t, browser(t, s, ports["http"]), "/"); got != "hello\n" {
		t.Errorf("got %q", got)
	}
}
