//go:build linux && !race

package launcher_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// tallied is a user of these tests alone: what the kernel counts for all processes of a user, they use up.
const tallied = ordinaryUser + 20

// inFlight has as many descriptors under way as the kernel lets it, until it is killed.
const inFlight = `
import array, socket, sys, time
pairs, fds = [], array.array("i", [0] * 250).tobytes()
while True:
    pairs.append(socket.socketpair())
    pairs[-1][0].setblocking(False)
    try:
        while True: pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    except BlockingIOError: pass
    except OSError as e:
        print(e.strerror, flush=True)
        break
time.sleep(1000)
`

// A sandbox that has all descriptors under way that it may keeps no other one of its user from its callers, and
// ends none.
func TestSandboxesOutliveTheDescriptorsOfAnother(t *testing.T) {
	for i, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			user := tallied + i
			greedy := &errand{
				Dir: stageFor(t, user), UID: uint32(user), Mode: isolation.Mode(level), Last: "kill $(cat pid)",
				Scripts: []string{"python3 -c '" + inFlight + "' >said 2>&1 & echo $! >pid; while ! [ -s said ]; do kill -0 $! || exit 1; done; cat said; ulimit -Hn"},
			}
			end := greedy.start(t)
			defer end()
			if said := greedy.outputs[0]; greedy.errs[0] != nil || !strings.HasPrefix(said, "Too many references") {
				t.Fatalf("it says %q, %v", said, greedy.errs[0])
			}
			other := &errand{Dir: stageFor(t, user), UID: uint32(user), Mode: isolation.Mode(isolation.Namespaces), Scripts: []string{"echo serves"}}
			other.run(t)
			if other.errs[0] != nil || other.outputs[0] != "serves\n" {
				t.Errorf("the other one: %q, %v", other.outputs[0], other.errs[0])
			}
		})
	}
}

// A sandbox in namespaces takes a few of the machine's terminals, and leaves the others.
func TestSandboxCannotTakeAllTerminals(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = isolation.Mode(isolation.Namespaces)
	s := launch(t, l, launcher.Spec{ID: "a"})
	const greedy = `
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
n = 0
try:
    while n < 4000: n += os.open("/dev/ptmx", os.O_RDWR) > 0
except OSError as e: print(n, e.strerror)`
	if got := output(t, s, "python3 -c '"+greedy+"'"); got != "128 No space left on device" {
		t.Errorf("it has %q terminals", got)
	}
}

// A sandbox cannot have the user wait who opens a file that the sandbox may read.
func TestSandboxCannotLeaseWhatItReads(t *testing.T) {
	dir := placeOfSecret(t)
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			l.Isolation, l.Readable = isolation.Mode(level), []string{dir}
			s := launch(t, l, launcher.Spec{ID: "a"})
			for _, kind := range []string{"F_RDLCK", "F_WRLCK"} {
				lease := `import fcntl, sys; fcntl.fcntl(open(sys.argv[1]), fcntl.F_SETLEASE, fcntl.` + kind + `)`
				out, err := s.Command(t.Context(), "python3", "-c", lease, filepath.Join(dir, "key")).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "Invalid argument") {
					t.Errorf("%s: %v, %s", kind, err, out)
				}
			}
		})
	}
}

// Within rules of Landlock, all processes of the user count to a limit of processes. A sandbox that begins later
// may have more of them than an earlier one's commands may, and must not keep that one's agent from its threads.
func TestAgentHasThreadsWhateverOtherSandboxesStart(t *testing.T) {
	e := &errand{
		Dir: stageFor(t, tallied+2), UID: tallied + 2, Mode: isolation.Mode(isolation.Landlock),
		Scripts: []string{"awk '/^Max processes/ {print $4}' /proc/self/limits /proc/$PPID/limits"},
	}
	e.run(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil {
		t.Fatal(err)
	}
	outside := "unlimited"
	if limit.Max != unix.RLIM_INFINITY {
		outside = fmt.Sprint(limit.Max)
	}
	commands, agent, _ := strings.Cut(strings.TrimSpace(e.outputs[0]), "\n")
	if e.errs[0] != nil || agent != outside || commands == outside {
		t.Errorf("commands may have %q processes, and the agent %q, of %s: %v", commands, agent, outside, e.errs[0])
	}
}
