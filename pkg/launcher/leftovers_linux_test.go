package launcher_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// A process that leaves its parents, its session and its environment. If it is told to, it also lowers the limits
// that bear its mark.
const deserter = `import os, resource, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
if sys.argv[1] == "blurred":
    for limit in 10, 15: resource.setrlimit(limit, (5, 5))
with open("new", "w") as f: f.write(str(os.getpid()))
os.rename("new", "pid")
for fd in range(3): os.close(fd)
os.execve("/bin/sleep", ["sleep", "1000"], {})`

// desert starts such a process, and returns a descriptor of it, or -1 for a blurred one that the end of another test's
// sandbox has taken already: it could be anybody's.
func desert(t *testing.T, s *launcher.Sandbox, kind string) (pidfd int) {
	t.Helper()
	text := output(t, s, "python3 -c '"+deserter+"' "+kind+"; until [ -e pid ]; do sleep 0.01; done; cat pid; rm pid")
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	pidfd, err = unix.PidfdOpen(pid, 0)
	if kind == "blurred" && errors.Is(err, unix.ESRCH) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pidfd) })
	return pidfd
}

// isOver reports whether a process has ended.
func isOver(t *testing.T, pidfd int) bool {
	t.Helper()
	if pidfd < 0 {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// withoutGroup has the launcher know of no control group, as on a machine that lets it make none.
func withoutGroup(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	path := filepath.Join(filepath.Dir(s.Workdir), "sandbox.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]any
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	delete(record["traces"].(map[string]any), "group")
	if text, err = json.Marshal(record); err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Nothing tells the processes of a sandbox by what they can change, once its agent was killed.
func TestTerminateEndsWhatDroppedItsMarks(t *testing.T) {
	for _, test := range []struct {
		mode  isolation.Mode
		group bool
	}{{isolation.Off, false}, {isolation.Mode(isolation.Landlock), false}, {isolation.Mode(isolation.Landlock), true}} {
		t.Run(strings.TrimSuffix(string(test.mode)+" "+map[bool]string{true: "group"}[test.group], " "), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			l.Isolation = test.mode
			s, other := launch(t, l, launcher.Spec{ID: "a"}), launch(t, l, launcher.Spec{ID: "b"})
			theirs := desert(t, other, "whole")
			left := map[string]int{}
			for _, kind := range []string{"whole", "blurred"} {
				left[kind] = desert(t, s, kind)
			}
			if !test.group {
				defer killGroups(t, s)()
				withoutGroup(t, s)
			}
			killAgents(t, l)
			// The end of a sandbox of another test may have taken the blurred one: see desert.
			if isOver(t, left["whole"]) {
				t.Fatal("it ends with its agent")
			}
			if err := l.Terminate(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			for kind, pidfd := range left {
				if !isOver(t, pidfd) {
					t.Errorf("the %s one runs", kind)
				}
			}
			if isOver(t, theirs) {
				t.Error("that of another sandbox has ended, too")
			}
		})
	}
}

// killGroups returns what removes the control group of a sandbox, of which its launcher will know nothing.
func killGroups(t *testing.T, s *launcher.Sandbox) func() {
	t.Helper()
	group := groupOf(t, s)
	return func() {
		for _, dir := range []string{filepath.Join(group, "processes"), group} {
			if err := os.Remove(dir); err != nil && group != "" {
				t.Errorf("something is left in the control group: %v", err)
			}
		}
	}
}

// groupOf returns the path of the control group of a sandbox, "" if it has none.
func groupOf(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(s.Workdir), "sandbox.json"))
	if err != nil {
		t.Fatal(err)
	}
	var record struct{ Traces struct{ Group string } }
	if err := json.Unmarshal(text, &record); err != nil {
		t.Fatal(err)
	}
	return record.Traces.Group
}

// A program whose children look as if they were any sandbox's, or the one with the directory that it is told. There
// are always new ones.
const impostor = `import os, resource, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
def child(seconds, env):
    pid = os.fork()
    if pid: return
    for limit in 10, 15: resource.setrlimit(limit, (5, 5))
    os.execve("/bin/sleep", ["sleep", seconds], env)
for n in range(1000000):
    child("0.2", {"PODAGENT_SANDBOX": sys.argv[1]} if n % 2 else {})
    if n == 20: print("many", flush=True)
    time.sleep(0.004)`

// A sandbox must not keep others from being ended, whatever its processes look like, nor lose those that are
// certainly its own.
func TestNoSandboxKeepsAnotherFromBeingEnded(t *testing.T) {
	for _, mode := range []isolation.Mode{isolation.Off, isolation.Mode(isolation.Landlock), isolation.Mode(isolation.Namespaces)} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			l.Isolation = mode
			hostile, other := launch(t, l, launcher.Spec{ID: "a"}), launch(t, l, launcher.Spec{ID: "b"})
			cmd := hostile.Command(t.Context(), "python3", "-c", impostor, filepath.Dir(other.Workdir))
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := l.Terminate(t.Context(), "b"); err != nil {
				t.Error(err)
			}
			if got := output(t, hostile, "echo works"); got != "works" {
				t.Errorf("a command printed %q", got)
			}
			if err := l.Terminate(t.Context(), "a"); err != nil {
				t.Errorf("ending the hostile one: %v", err)
			}
		})
	}
}
