package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// startBy has the launcher's agent run by a shell script, in which $agent names it.
func startBy(t *testing.T, l *launcher.Local, script string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "podagent")
	text := fmt.Sprintf("#!/bin/sh -e\nexport agent=%q\n%s\n", l.Agent, script)
	writeProgram(t, program, []byte(text))
	l.Agent = program
}

// writeProgram writes a program that is executed at once. No other goroutine starts a process meanwhile, which would have
// the file open for writing until it executes its own program.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// inContainersDev runs the agent where /dev is like that of a container, whose device for terminals is a link,
// and where a device is missing.
const inContainersDev = `exec unshare --mount sh -ec '
mount -t tmpfs tmpfs /mnt
for name in null zero random urandom tty; do
	: >/mnt/$name
	mount --bind /dev/$name /mnt/$name
done
mkdir /mnt/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts /mnt/pts
ln -s pts/ptmx /mnt/ptmx
mount --move /mnt /dev
exec "$agent" "$@"' sh "$@"`

func TestIsolationInAContainersDev(t *testing.T) {
	for _, test := range []struct {
		name     string
		mode     isolation.Mode
		refused  bool // namespaces are
		expected isolation.Level
	}{
		{"namespaces", isolation.Mode(isolation.Namespaces), false, isolation.Namespaces},
		{"landlock", isolation.Mode(isolation.Landlock), false, isolation.Landlock},
		{"auto without namespaces", isolation.Auto, true, isolation.Landlock},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			if test.refused {
				refusing(t, l, true, false)
			}
			startBy(t, l, inContainersDev)
			l.Isolation = test.mode
			s := launch(t, l, launcher.Spec{ID: "a"})
			if s.Isolation.Level != test.expected {
				t.Errorf("it is isolated by %+v", s.Isolation)
			}
			cmd := s.Command(t.Context(), "sh", "-c", "tty >/dev/null && test ! -e /dev/full && echo works >/dev/tty")
			cmd.Terminal = &podapi.TerminalSize{Rows: 24, Columns: 80}
			if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "works" {
				t.Errorf("a command with a terminal: %q, %v", out, err)
			}
		})
	}
}

// A pod that drops capabilities, a unit of systemd that bounds them, and a sandbox: root lacks what gives others up.
func TestIsolationOfRootThatLacksCapabilities(t *testing.T) {
	for _, bounds := range []string{"-all", "-all,+net_bind_service", "-setpcap"} {
		for _, mode := range []isolation.Mode{isolation.Auto, isolation.Mode(isolation.Landlock)} {
			t.Run(bounds+" "+string(mode), func(t *testing.T) {
				t.Parallel()
				l := launchertest.Local(t)
				startBy(t, l, `exec setpriv --bounding-set=`+bounds+` "$agent" "$@"`)
				l.Isolation = mode
				s := launch(t, l, launcher.Spec{ID: "a"})
				if s.Isolation.Level == isolation.None {
					t.Errorf("nothing isolates it: %s", s.Isolation.Missing)
				}
				none := "0000000000000000"
				if got := output(t, s, "grep -E '^Cap(Inh|Prm|Eff|Amb)' /proc/self/status | cut -f2 | sort -u"); got != none {
					t.Errorf("a command has the capabilities %s", got)
				}
			})
		}
	}
}

// gVisor lets nobody set the limits that bear the mark of a sandbox. Its agent does without it.
func TestSandboxWhereNobodySetsTheLimitsOfMarks(t *testing.T) {
	l := launchertest.Local(t)
	// The call is prlimit64(2) with a new limit, of RLIMIT_LOCKS or RLIMIT_RTTIME.
	filtering(t, l, `
steps += [step(0x15, 302, 0, 6), step(0x20, 32), step(0x15, 0, 4, 0), step(0x20, 24), step(0x15, 10, 1, 0), step(0x15, 15, 0, 1), step(0x06, errno | 1), step(0x20, 0)]
`)
	l.Isolation = isolation.Mode(isolation.Landlock)
	s := launch(t, l, launcher.Spec{ID: "a"})
	if got := output(t, s, "grep -c 'file locks *unlimited *unlimited' /proc/self/limits"); got != "1" {
		t.Errorf("%s of its commands' limits of locks are as they were", got)
	}
}

// bare runs f on a thread of root without capabilities, which no program gets back that it starts.
func bare(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with f
		for right := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0) == nil; right++ {
		}
		var none [2]unix.CapUserData
		if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// The advice is about what is in the way.
func TestDoctorAdvisesWhatHelps(t *testing.T) {
	check := func(name string, l *launcher.Local) launcher.Finding {
		for f := range l.Check(t.Context(), launcher.Spec{}) {
			if f.Name == name {
				return f
			}
		}
		return launcher.Finding{}
	}
	l := launchertest.Local(t)
	l.Isolation = isolation.Auto
	bare(t, func() {
		f := check("isolation", l)
		if said := fmt.Sprint(f.Err); f.Verdict != launcher.Warned || !strings.Contains(said, "level landlock") || !strings.Contains(said, "not stronger because namespaces: ") || !strings.Contains(f.Advice, "SETFCAP") {
			t.Errorf("root without capabilities: %+v", f)
		}
	})
	t.Setenv("PODAGENT_CONFINE", "off")
	if f := check("isolation", l); f.Verdict != launcher.Warned || !strings.Contains(fmt.Sprint(f.Err), "not stronger because commands are not confined") || !strings.HasPrefix(f.Advice, "Unset PODAGENT_CONFINE") {
		t.Errorf("commands that are not confined: %+v", f)
	}
	startBy(t, l, "echo broken >&2; exit 1")
	if f := check("sandbox", l); f.Verdict != launcher.Failed || !strings.Contains(fmt.Sprint(f.Err), "broken") || strings.Contains(f.Advice, "Build") {
		t.Errorf("an agent that fails: %+v", f)
	}
	l.Agent = filepath.Join(t.TempDir(), "podagent")
	if f := check("sandbox", l); f.Verdict != launcher.Failed || !strings.HasPrefix(f.Advice, "Build podagent") {
		t.Errorf("no agent: %+v", f)
	}
}
