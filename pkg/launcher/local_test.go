//go:build linux

package launcher_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/procfs/procfstest"
)

func launch(t *testing.T, l launcher.Launcher, spec launcher.Spec) *launcher.Sandbox {
	t.Helper()
	s, err := l.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// signalAgent signals the agent of a sandbox, which is the parent of its commands.
func signalAgent(t *testing.T, s *launcher.Sandbox, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(agentOf(t, s), sig); err != nil {
		t.Fatal(err)
	}
}

// agentOf returns the process id of a local sandbox's agent.
func agentOf(t *testing.T, s *launcher.Sandbox) (pid int) {
	t.Helper()
	out, err := s.Shell(t.Context(), "echo $PPID").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

func TestLocalFiftyLaunchesOfOneIDEndInOneSandbox(t *testing.T) {
	l := launchertest.Local(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	boots, created := map[string]bool{}, 0
	for range 50 {
		all.Go(func() {
			// Launchers of their own, as other processes would have.
			mine := &launcher.Local{StateDir: l.StateDir, Agent: l.Agent}
			s, err := mine.Launch(t.Context(), launcher.Spec{ID: "one"})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			info, err := s.Info(t.Context())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			boots[info.BootID] = true
			if s.Created {
				created++
			}
		})
	}
	all.Wait()
	if len(boots) != 1 || created != 1 {
		t.Errorf("%d agents, created %d times", len(boots), created)
	}
	if list, err := l.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
}

func TestLocalLaunchesAndTerminationsAtOnceLeaveNothingHalf(t *testing.T) {
	l := launchertest.Local(t)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			if i%3 == 0 {
				if err := l.Terminate(t.Context(), "x"); err != nil {
					t.Error(err)
				}
				return
			}
			s, err := l.Launch(t.Context(), launcher.Spec{ID: "x"})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	all.Wait()
	s := launch(t, l, launcher.Spec{ID: "x"})
	if err := s.WriteFile(t.Context(), "file", nil, 0o666); err != nil {
		t.Error(err)
	}
}

func TestLocalStateIsItsOwnersAlone(t *testing.T) {
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	for _, dir := range []string{l.StateDir, sandboxDir(t, l)} {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", dir, info.Mode(), err)
		}
	}
}

func TestLocalRefusesAStateDirectoryThatLetsInOthers(t *testing.T) {
	l := launchertest.Local(t)
	l.StateDir = filepath.Join(l.StateDir, "shared")
	if err := os.MkdirAll(l.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil || !strings.Contains(err.Error(), "0700") {
		t.Errorf("got %v", err)
	}
	if info, err := os.Stat(l.StateDir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode was changed to %v, %v", info.Mode(), err)
	}
}

func TestLocalTerminateWithAnEndedContextKeepsTheSandbox(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Terminate(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Terminate: %v", err)
	}
	if _, err := l.Open(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v", err)
	}
	if list, err := l.List(t.Context()); err != nil || len(list) != 1 || list[0].State != launcher.Running {
		t.Errorf("List: %+v, %v", list, err)
	}
	if _, err := s.Info(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLocalEnvironmentIsReplacedByTheLastLaunch(t *testing.T) {
	l := launchertest.Local(t)
	env := func(s *launcher.Sandbox) string {
		out, err := s.Shell(t.Context(), `echo $A-$B-$PODAGENT_LOG_LEVEL`).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	s := launch(t, l, launcher.Spec{ID: "a", Env: []string{"A=1", "PODAGENT_LOG_LEVEL=nonsense"}})
	if got := env(s); got != "1--nonsense" {
		t.Errorf("at first: %s", got)
	}
	if got := env(launch(t, l, launcher.Spec{ID: "a", Env: []string{"B=2"}})); got != "-2-" {
		t.Errorf("replaced: %s", got)
	}
	if got := env(launch(t, l, launcher.Spec{ID: "a"})); got != "-2-" {
		t.Errorf("without one: %s", got)
	}
}

// sandboxDir returns the directory with the state of the only sandbox.
func sandboxDir(t *testing.T, l *launcher.Local) string {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(l.StateDir, "*", "agent.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("there are %q, %v", sockets, err)
	}
	return filepath.Dir(sockets[0])
}

func TestLocalStateDirMayHaveALongPath(t *testing.T) {
	l := launchertest.Local(t)
	l.StateDir = filepath.Join(l.StateDir, strings.Repeat("long/", 50))
	t.Cleanup(func() {
		if err := l.Terminate(context.Background(), "a"); err != nil {
			t.Error(err)
		}
	})
	s := launch(t, l, launcher.Spec{ID: "a"})
	if _, err := s.Info(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}

func TestLocalAgentThatDiedIsStartedAgainWithTheSameFiles(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a", Env: []string{"GIVEN=yes"}})
	if err := s.WriteFile(t.Context(), "file", []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	signalAgent(t, s, syscall.SIGKILL)
	again := launch(t, l, launcher.Spec{ID: "a"})
	if data, err := again.ReadFile(t.Context(), "file"); err != nil || string(data) != "kept" || again.Created {
		t.Errorf("%q, %v, created %v", data, err, again.Created)
	}
	if out, err := again.Shell(t.Context(), "echo $GIVEN").Output(); err != nil || string(out) != "yes\n" {
		t.Errorf("the environment is %q, %v", out, err)
	}
}

func TestLocalTerminateEndsProcessesAndRemovesReadOnlyTrees(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a"})
	cmd := s.Shell(t.Context(), `mkdir -p ro/sub; touch ro/sub/file; chmod -R a-w ro; trap "" TERM; echo; exec sleep 300`)
	if _, err := cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	dir := sandboxDir(t, l)
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state is still there: %v", err)
	}
	left, err := os.ReadDir(l.StateDir)
	if err != nil || len(left) > 0 {
		t.Errorf("left is %v, %v", left, err)
	}
	if syscall.Kill(cmd.Process.PID(), 0) == nil {
		t.Error("the process survived")
	}
}

func TestLocalTerminateEndsWhatADeadAgentLeft(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a"})
	plain, daemon := s.Command(t.Context(), "sleep", "300"), s.Shell(t.Context(), "setsid sleep 300 & echo $!")
	daemon.ClearEnv, daemon.Env = true, []string{"PATH=" + os.Getenv("PATH")}
	out, err := daemon.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	var setsid int
	if _, err := fmt.Sscan(string(out), &setsid); err != nil {
		t.Fatal(err)
	}
	signalAgent(t, s, syscall.SIGKILL)
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{plain.Process.PID(), setsid} {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil && !strings.Contains(string(state), "State:\tZ") {
			t.Errorf("process %d survived", pid)
		}
	}
}

// TestLocalTerminateBesideALongEnvironment has a process on the host that claims an
// environment of 64 GiB. The search for what an agent left looks at it.
func TestLocalTerminateBesideALongEnvironment(t *testing.T) {
	procfstest.ClaimEnviron(t, 64<<30)
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	n := procfstest.Allocated(func() {
		if err := l.Terminate(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
	if t.Logf("%d KiB", n>>10); n > 64<<20 {
		t.Errorf("the search took %d MiB", n>>20)
	}
}

// The sandbox's marker comes before a command's own environment, however long that is.
func TestLocalTerminateEndsCommandsWithALongEnvironment(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a"})
	cmd := s.Command(t.Context(), "sleep", "300")
	for _, name := range []string{"A", "B", "C", "D"} {
		cmd.Env = append(cmd.Env, name+"="+strings.Repeat("x", 100<<10))
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	signalAgent(t, s, syscall.SIGKILL)
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.PID()
	if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil && !strings.Contains(string(state), "State:\tZ") {
		t.Errorf("process %d survived", pid)
	}
}

func TestLocalAgentThatIsStoppedIsAnErrorOfOpenAndKilledByTerminate(t *testing.T) {
	l := launchertest.Local(t)
	s := launch(t, l, launcher.Spec{ID: "a"})
	launchertest.Stop(t, agentOf(t, s))
	if _, err := l.Open(t.Context(), "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Open of a stopped agent: %v", err)
	}
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Errorf("Terminate of a stopped agent: %v", err)
	}
}

func TestLocalWithoutAnIDIsRemovedWhenItIsClosed(t *testing.T) {
	l := launchertest.Local(t)
	s, err := l.Launch(t.Context(), launcher.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.Launch(t.Context(), launcher.Spec{ID: s.ID, OnClose: launcher.CloseDelete})
	if err != nil {
		t.Fatal(err)
	}
	// The one that did not create it does not remove it.
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	if list, err := l.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != s.ID || list[0].State != launcher.Running {
		t.Errorf("List: %+v, %v", list, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if list, err := l.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List: %+v, %v", list, err)
	}
}

func TestLocalWorkdirOfTheCallersStays(t *testing.T) {
	l := launchertest.Local(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := launch(t, l, launcher.Spec{ID: "a", Workdir: dir})
	if data, err := s.ReadFile(t.Context(), "mine"); err != nil || string(data) != "x" || s.Workdir != dir {
		t.Errorf("%q, %v, in %s", data, err, s.Workdir)
	}
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
		t.Error(err)
	}
}

func TestLocalLaunchThatFailsLeavesNothing(t *testing.T) {
	for what, agent := range map[string]string{
		"an agent that is not there":  "/no/such/podagent",
		"an agent that fails at once": "/bin/false",
		"an agent that ends at once":  "/bin/true",
		"an agent that is no program": "/etc/passwd",
	} {
		l := &launcher.Local{StateDir: filepath.Join(t.TempDir(), "state"), Agent: agent}
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil {
			t.Errorf("%s: no error", what)
		}
		left, err := os.ReadDir(l.StateDir)
		if err != nil || len(left) > 0 {
			t.Errorf("%s: left is %v, %v", what, left, err)
		}
	}
}

func TestLocalWithoutAnAgentSaysHowToGetOne(t *testing.T) {
	t.Setenv("PODAGENT_BIN", "")
	t.Setenv("PATH", t.TempDir())
	l := &launcher.Local{StateDir: filepath.Join(t.TempDir(), "state")}
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrNoAgent) {
		t.Errorf("got %v", err)
	}
}

func TestLocalListIsSortedAndKnowsTheStopped(t *testing.T) {
	l := launchertest.Local(t)
	for _, id := range []string{"b", "a", "c"} {
		launch(t, l, launcher.Spec{ID: id})
	}
	list, err := l.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
		if s.State != launcher.Running || s.CreatedAt.IsZero() || s.Workdir == "" {
			t.Errorf("%+v", s)
		}
	}
	if !slices.Equal(ids, []string{"a", "b", "c"}) {
		t.Errorf("the ids are %q", ids)
	}
}

func TestLocalRefusesOtherUsers(t *testing.T) {
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	if os.Getuid() != 0 {
		t.Fatal("this test must be root, to become another user")
	}
	socket := filepath.Join(sandboxDir(t, l), "agent.sock")
	// Open the way, so that only the agent itself is left to refuse.
	for dir := filepath.Dir(socket); dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(dir, info.Mode().Perm()) })
	}
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Errorf("cannot connect at all: %v", err)
			return
		}
		defer conn.Close()
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
			t.Error("the agent answers another user")
		}
	})
}

// Root may read any directory, unless it gives up this right.
func TestJobGoesOnBesideAnUnreadableDirectory(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{self, "-test.run", "^ExampleSandbox$"}
	if os.Geteuid() == 0 {
		const rights = "-dac_override,-dac_read_search"
		args = append([]string{"setpriv", "--bounding-set", rights, "--inh-caps", rights, "--"}, args...)
	}
	out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "grep private: permission denied") {
		t.Errorf("%v, output:\n%s", err, out)
	}
}
