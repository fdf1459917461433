package launcher_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// refusing writes a program that runs the agent on a machine which refuses some of the system calls, as
// containers and hardened systems do. It is the launcher's agent from then on.
func refusing(t *testing.T, l *launcher.Local, namespaces, landlock bool) {
	t.Helper()
	var clone, ruleset unix.Errno
	if namespaces {
		clone = unix.EPERM
	}
	if landlock {
		ruleset = unix.ENOSYS
	}
	answering(t, l, clone, ruleset, 0)
}

// answering writes a program that runs the agent on a machine which answers so to a clone with a new user
// namespace, to landlock_create_ruleset, and to seccomp, unless it is 0. It is the launcher's agent from then on.
func answering(t *testing.T, l *launcher.Local, clone, ruleset, seccomp unix.Errno) {
	t.Helper()
	filtering(t, l, answers(clone, ruleset, seccomp, 0))
}

// answers are the steps of such a filter. mount is the answer to mount(2), unless it is 0.
func answers(clone, ruleset, seccomp, mount unix.Errno) string {
	return fmt.Sprintf(`
clone, ruleset, seccomp, mount = %d, %d, %d, %d
if clone:
    steps += [step(0x15, 435, 0, 1), step(0x06, errno | 38), step(0x15, 56, 0, 4), step(0x20, 16), step(0x45, 0x10000000, 0, 1), step(0x06, errno | clone), step(0x20, 0)]
if ruleset:
    steps += [step(0x15, 444, 0, 1), step(0x06, errno | ruleset)]
if seccomp:
    steps += [step(0x15, 317, 0, 1), step(0x06, errno | seccomp)]
if mount:
    steps += [step(0x15, 165, 0, 1), step(0x06, errno | mount)]
`, clone, ruleset, seccomp, mount)
}

// filtering writes a program that runs the agent within a filter of system calls, with these steps in Python. It is
// the launcher's agent from then on.
func filtering(t *testing.T, l *launcher.Local, steps string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "podagent")
	writeFiltered(t, program, l.Agent, steps)
	l.Agent = program
}

// writeFiltered writes such a program, which runs an agent.
func writeFiltered(t *testing.T, program, agent, steps string) {
	t.Helper()
	text := fmt.Sprintf(`#!/usr/bin/python3
import ctypes, os, struct, sys
def step(code, k, jt=0, jf=0): return struct.pack("HBBI", code, jt, jf, k)
errno = 0x00050000
steps = [step(0x20, 0)]  # the number of the system call
%s
steps += [step(0x06, 0x7fff0000)]
filter = b"".join(steps)
buffer = ctypes.create_string_buffer(filter)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program): sys.exit("no filter")
os.execv(%q, sys.argv)
`, steps, agent)
	writeProgram(t, program, []byte(text))
}

// What others use up, such as namespaces or processes, is there again later. It makes no sandbox a weaker one.
func TestAutoTakesNoWeakerLevelForALack(t *testing.T) {
	for _, lack := range []unix.Errno{unix.EAGAIN, unix.ENOMEM, unix.ENOSPC, unix.EMFILE, unix.ENFILE} {
		t.Run(unix.ErrnoName(lack), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			answering(t, l, lack, 0, 0)
			l.Isolation = isolation.Auto
			_, err := l.Launch(t.Context(), launcher.Spec{ID: "a"})
			if err == nil || errors.Is(err, launcher.ErrIsolation) || !strings.Contains(err.Error(), "namespaces: ") || !strings.Contains(err.Error(), lack.Error()) {
				t.Errorf("launching: %v", err)
			}
		})
	}
}

// A path of the view that cannot be reached is no reason for a weaker level: another sandbox may have made it so.
func TestAutoTakesNoWeakerLevelForAPath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("only root can make a path that the launcher reaches, and its agent in namespaces does not")
	}
	l := launchertest.Local(t)
	closed := filepath.Join(t.TempDir(), "closed")
	readable := filepath.Join(closed, "readable")
	if err := errors.Join(os.MkdirAll(readable, 0o755), os.Chmod(closed, 0o700), os.Chown(closed, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	l.Isolation, l.Readable = isolation.Auto, []string{readable}
	_, err := l.Launch(t.Context(), launcher.Spec{ID: "a"})
	if err == nil || errors.Is(err, launcher.ErrIsolation) || !strings.Contains(err.Error(), "namespaces: ") || !strings.Contains(err.Error(), readable) {
		t.Errorf("launching: %v", err)
	}
}

// Systems with SELinux refuse namespaces by the error that a program's mode may bring, too.
func TestAutoTakesLandlockWhereNamespacesAreNotPermitted(t *testing.T) {
	l := launchertest.Local(t)
	answering(t, l, unix.EACCES, 0, 0)
	l.Isolation = isolation.Auto
	if s := launch(t, l, launcher.Spec{ID: "a"}); s.Isolation.Level != isolation.Landlock || s.Isolation.Missing == "" {
		t.Errorf("it is isolated by %+v", s.Isolation)
	}
}

func TestIsolationThatCannotBeFailsClosed(t *testing.T) {
	for mode, says := range map[isolation.Mode]string{
		isolation.Mode(isolation.Namespaces): "namespaces: ", isolation.Mode(isolation.Landlock): "landlock: ", isolation.Require: "landlock: ",
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			refusing(t, l, true, true)
			l.Isolation = mode
			_, err := l.Launch(t.Context(), launcher.Spec{ID: "a"})
			if !errors.Is(err, launcher.ErrIsolation) || !strings.Contains(err.Error(), says) || strings.Count(err.Error(), launcher.ErrIsolation.Error()) != 1 {
				t.Errorf("launching: %v", err)
			}
			if _, err := l.Find(t.Context(), "a"); !errors.Is(err, launcher.ErrNotFound) {
				t.Errorf("it is left: %v", err)
			}
		})
	}
	l := launchertest.Local(t)
	l.Isolation = "chroot"
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil {
		t.Error("an unknown level is taken")
	}
}

// Code in a sandbox may make starts of its agent fail. The sandbox is not less isolated then.
func TestSandboxKeepsItsLevelOrDoesNotStart(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = isolation.Auto
	launch(t, l, launcher.Spec{ID: "a"})
	killAgents(t, l)
	refusing(t, l, true, false)
	if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrIsolation) {
		t.Errorf("opening it: %v", err)
	}
}

// Without the boundary of commands no level holds: they could use the user's keys, for one.
func TestNoLevelIsolatesCommandsThatAreNotConfined(t *testing.T) {
	t.Setenv("PODAGENT_CONFINE", "off")
	l := launchertest.Local(t)
	for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
		l.Isolation = isolation.Mode(level)
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrIsolation) {
			t.Errorf("%s: %v", level, err)
		}
	}
	l.Isolation = isolation.Auto
	if s := launch(t, l, launcher.Spec{ID: "a"}); s.Isolation.Level != isolation.None || !strings.Contains(s.Isolation.Missing, "not confined") {
		t.Errorf("auto: it is isolated by %+v", s.Isolation)
	}
}

// A kernel that cannot confine commands ends the start, at each level and at auto.
func TestNoLevelIsolatesWithoutAFilter(t *testing.T) {
	for _, mode := range []isolation.Mode{isolation.Mode(isolation.Namespaces), isolation.Mode(isolation.Landlock), isolation.Auto} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			answering(t, l, 0, 0, unix.ENOSYS)
			l.Isolation = mode
			if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrIsolation) || !strings.Contains(err.Error(), "syscall-filter") {
				t.Errorf("launching: %v", err)
			}
		})
	}
}

// What keeps sandboxes from a better level is said, and how to get it: the advice is about the cause.
func TestDoctorSaysWhatWouldRaiseTheLevel(t *testing.T) {
	namespaces, landlock := isolation.Mode(isolation.Namespaces), isolation.Mode(isolation.Landlock)
	for _, test := range []struct {
		name                    string
		mode                    isolation.Mode
		clone, ruleset, seccomp unix.Errno
		check                   string
		verdict                 launcher.Verdict
		says, advises, not      string
	}{
		{"all", "", 0, 0, 0, "isolation", launcher.Passed, "level namespaces: ", "", "."},
		{"no namespaces", "", unix.EPERM, 0, 0, "isolation", launcher.Warned, "level landlock: ", "clone", "Landlock"},
		{"neither", "", unix.EPERM, unix.ENOSYS, 0, "isolation", launcher.Warned, "nothing isolates it", "clone", "systemd-run"},
		{"neither, and how to get Landlock", "", unix.EPERM, unix.ENOSYS, 0, "isolation", launcher.Warned, "nothing isolates it", "Landlock needs", "systemd-run"},
		{"no wish", isolation.Off, 0, 0, 0, "isolation", launcher.Warned, "nothing isolates it", "--isolation none", "clone"},
		{"namespaces required", namespaces, unix.EPERM, 0, 0, "sandbox", launcher.Failed, "namespaces: ", "clone", "Landlock"},
		{"landlock required", landlock, 0, unix.ENOSYS, 0, "sandbox", launcher.Failed, "landlock: ", "Landlock needs", "clone"},
		{"no filter", isolation.Auto, 0, 0, unix.ENOSYS, "sandbox", launcher.Failed, "syscall-filter: ", "seccomp", "Landlock"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := launchertest.Local(t)
			answering(t, l, test.clone, test.ruleset, test.seccomp)
			l.Isolation = test.mode
			f := finding(t, l, test.check)
			if f.Verdict != test.verdict || !strings.Contains(f.Detail+fmt.Sprint(f.Err), test.says) || !strings.Contains(f.Advice, test.advises) || strings.Contains(f.Advice, test.not) {
				t.Errorf("%+v", f)
			}
		})
	}
}

// finding returns what a check says about sandboxes of a launcher.
func finding(t *testing.T, l *launcher.Local, check string) launcher.Finding {
	t.Helper()
	for f := range l.Check(t.Context(), launcher.Spec{}) {
		if f.Name == check {
			return f
		}
	}
	t.Fatalf("there is no check %q", check)
	return launcher.Finding{}
}

// A sandbox that is there already is not taken for one that is isolated better.
func TestAdoptedSandboxHasTheLevelThatIsNamed(t *testing.T) {
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	for _, mode := range []isolation.Mode{isolation.Require, isolation.Mode(isolation.Landlock), isolation.Mode(isolation.Namespaces)} {
		l.Isolation = mode
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrIsolation) {
			t.Errorf("%s: %v", mode, err)
		}
	}
	l.Isolation = isolation.Mode(isolation.Namespaces)
	launch(t, l, launcher.Spec{ID: "b"})
	for _, mode := range []isolation.Mode{isolation.Auto, isolation.Require, isolation.Off, isolation.Mode(isolation.Landlock)} {
		l.Isolation = mode
		if s := launch(t, l, launcher.Spec{ID: "b"}); s.Isolation.Level != isolation.Namespaces || len(s.Drift) > 0 {
			t.Errorf("%s: %+v, %q", mode, s.Isolation, s.Drift)
		}
	}
	l.Isolation, l.Limits, l.Readable = isolation.Auto, corev1.ResourceList{launcher.ResourceProcesses: resource.MustParse("100")}, []string{t.TempDir()}
	if s := launch(t, l, launcher.Spec{ID: "b"}); len(s.Drift) != 2 {
		t.Errorf("with other limits and paths: %q", s.Drift)
	}
}
