package e2e

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// escapees are scripts whose child leaves its session, its parents and its environment.
// It writes its pid to the file "pid".
var escapees = map[string]string{
	"setsid":      `setsid -f env -i sh -c "echo \$\$ > pid; exec sleep 300"`,
	"double fork": `(setsid sh -c "(env -i setsid sh -c 'echo \$\$ > pid; exec sleep 300' &) &" &)`,
	"its limits":  `setsid -f env -i bash -c "ulimit -x 1000; ulimit -R 1000000; ulimit -m 1000000; ulimit -u 1000000; echo \$\$ > pid; exec sleep 300"`,
}

func TestEscapeeEndsWithItsCommandEverywhere(t *testing.T) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		testEscapees(t, harness.Launch(t, launchertest.Local(t), launcher.Spec{ID: t.Name()}))
	})
	t.Run("pod", func(t *testing.T) {
		t.Parallel()
		c := launchertest.NewCluster(t, launcher.Restricted)
		testEscapees(t, harness.Launch(t, c.Launcher(), c.Spec(t.Name())))
	})
	t.Run("pod, as root", func(t *testing.T) {
		t.Parallel()
		c := launchertest.NewCluster(t, launcher.Baseline)
		spec := c.Spec(t.Name())
		spec.Pod.Profile = launcher.Baseline
		testEscapees(t, harness.Launch(t, c.Launcher(), spec))
	})
	t.Run("pod under gVisor", func(t *testing.T) {
		t.Parallel()
		l, spec := underGVisor(t)
		testEscapees(t, harness.Launch(t, l, spec))
	})
	t.Run("beside Main", func(t *testing.T) {
		t.Parallel()
		c := launchertest.NewCluster(t, launcher.Restricted)
		spec := c.Spec(t.Name())
		spec.Pod.AgentImage, spec.Pod.Main = spec.Pod.Image, besideMain
		testEscapees(t, harness.Launch(t, c.Launcher(), spec))
	})
}

func testEscapees(t *testing.T, s *launcher.Sandbox) {
	for name, script := range escapees {
		t.Run(name+", kill", func(t *testing.T) {
			cmd := startEscapee(t, s, script, 0)
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Error(err)
			}
			checkEscapeeEnds(t, s, cmd)
		})
		t.Run(name+", timeout", func(t *testing.T) {
			cmd := startEscapee(t, s, script, 3*time.Second)
			checkEscapeeEnds(t, s, cmd)
		})
	}
}

// startEscapee starts a command whose child escapes, and returns once it has. On a slow
// machine it gives the command more time.
func startEscapee(t *testing.T, s *launcher.Sandbox, script string, timeout time.Duration) *podapi.Cmd {
	t.Helper()
	if err := s.RemoveAll(t.Context(), "pid"); err != nil {
		t.Fatal(err)
	}
	cmd := s.Command(t.Context(), "sh", "-c", script+"\nexec > /dev/null 2>&1; until [ -s pid ]; do sleep 0.05; done; sleep 300; sleep 300")
	cmd.Timeout = timeout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	escaped := false
	harness.Await(t, "an escapee", func() bool {
		pid, err := s.ReadFile(t.Context(), "pid")
		escaped = err == nil && len(pid) > 0
		return escaped || cmd.Process.Status() != nil
	})
	if !escaped {
		cmd.Wait()
		return startEscapee(t, s, script, 2*timeout)
	}
	return cmd
}

// checkEscapeeEnds waits for the end of a command, and checks that what escaped from it
// has ended, too.
func checkEscapeeEnds(t *testing.T, s *launcher.Sandbox, cmd *podapi.Cmd) {
	t.Helper()
	cmd.Wait()
	if status := cmd.Process.Status(); status == nil || status.Success() {
		t.Errorf("the command ended with %+v", status)
	}
	out, stderr, _ := harness.Run(t, s, `read pid < pid; read -r stat 2> /dev/null < /proc/$pid/stat && set -- ${stat##*) } && echo "$1"`, nil)
	// A zombie is reaped a moment later.
	if state := strings.TrimSpace(out); state != "" && state != "Z" || stderr != "" {
		t.Errorf("the escapee is alive, in state %q (%s)", state, stderr)
	}
}
