package launcher_test

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// leavesNothing checks that a launch which failed left no sandbox.
func leavesNothing(t *testing.T, l *launcher.Local) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(l.StateDir, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}

// A sandbox that could change the launcher's state would choose no isolation at its next start. One with the home would
// have its keys.
func TestIsolatedSandboxGetsNothingThatWouldLiftItsIsolation(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = ""
	home := filepath.Join(t.TempDir(), "u", "home")
	toHome, toState := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "state")
	if err := errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(filepath.Join(l.StateDir, "other"), 0o700), os.Chmod(l.StateDir, 0o700),
		os.Symlink(home, toHome), os.Symlink(filepath.Dir(l.StateDir), toState)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", toHome)
	for path, says := range map[string]string{
		home: "your home", filepath.Dir(home): "your home", toHome: "your home",
		l.StateDir: "the launcher's state", filepath.Dir(l.StateDir): "the launcher's state", toState: "the launcher's state",
		filepath.Join(l.StateDir, "other"): "the launcher's state", filepath.Join(l.StateDir, "new"): "the launcher's state",
		"/": "all of this machine", "/proc": "the kernel's", "/sys": "the kernel's", "/dev": "the kernel's", "/run": "sockets",
		"/proc/self/root": "all of this machine", "/dev/shm/x": "the kernel's", "/var/tmp": "all programs", "/var": "all programs",
	} {
		_, err := l.Launch(t.Context(), launcher.Spec{ID: "a", Workdir: path})
		if wrong, ok := errors.AsType[*launcher.SpecError](err); !ok || wrong.Field != "Workdir" || !strings.Contains(wrong.Msg, says) {
			t.Errorf("the workdir %s: %v", path, err)
		}
		if _, err := os.Stat(path); err != nil {
			continue // what is to be readable is there
		}
		l.Readable = []string{path}
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil || !strings.Contains(err.Error(), "Local.Readable: ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is readable: %v", path, err)
		}
		l.Readable = nil
	}
	for _, path := range []string{"/usr", "/etc", "/opt"} {
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a", Workdir: path}); err == nil || !strings.Contains(err.Error(), "the system's") {
			t.Errorf("the workdir %s: %v", path, err)
		}
	}
	if err := os.Remove(filepath.Join(l.StateDir, "other")); err != nil {
		t.Fatal(err)
	}
	leavesNothing(t, l)
}

// The home that the system knows is refused, whatever HOME says.
func TestTheSystemsHomeIsNoWorkdir(t *testing.T) {
	u, err := user.Current()
	if err != nil || u.HomeDir == "/" || u.HomeDir == "" {
		t.Fatalf("the system knows no home of this user: %v", err)
	}
	t.Setenv("HOME", t.TempDir())
	l := launchertest.Local(t)
	l.Isolation = isolation.Auto
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a", Workdir: u.HomeDir}); err == nil || !strings.Contains(err.Error(), "your home") {
		t.Errorf("launching: %v", err)
	}
}

// What lies in a path of the system need not be of the system.
func TestHomeAndStateBelowTheSystemAreHidden(t *testing.T) {
	for _, parent := range []string{"/opt", "/usr", "/etc"} {
		dir, err := os.MkdirTemp(parent, "podagent-test-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		home, beside, sdk, work := filepath.Join(dir, "home"), filepath.Join(dir, "beside"), filepath.Join(dir, "home", "sdk"), filepath.Join(dir, "home", "work")
		if err := errors.Join(os.Chmod(dir, 0o755), os.MkdirAll(sdk, 0o755), os.MkdirAll(work, 0o755), os.MkdirAll(beside, 0o755)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"home/key", "home/sdk/f", "beside/f"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(parent, func(t *testing.T) {
			t.Setenv("HOME", home)
			for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
				l := launchertest.Local(t)
				l.Isolation, l.Readable, l.StateDir = isolation.Mode(level), []string{sdk}, filepath.Join(dir, "state-"+string(level))
				launch(t, l, launcher.Spec{ID: "other"})
				s := launch(t, l, launcher.Spec{ID: "a", Workdir: work})
				if s.Isolation.Level != level {
					t.Fatalf("it is isolated by %+v", s.Isolation)
				}
				for _, path := range []string{filepath.Join(home, "key"), filepath.Join(l.StateDir, "*", "sandbox.json")} {
					if out, err := s.Command(t.Context(), "sh", "-c", "cat "+path).CombinedOutput(); err == nil {
						t.Errorf("%s: it reads %s: %s", level, path, out)
					}
				}
				if out, err := s.Command(t.Context(), "ls", home).Output(); err == nil && strings.Contains(string(out), "key") {
					t.Errorf("%s: it lists the home: %s", level, out)
				}
				if got := output(t, s, "cat "+filepath.Join(sdk, "f")+" "+filepath.Join(beside, "f")+"; echo x >"+filepath.Join(work, "f")); got != "home/sdk/fbeside/f" {
					t.Errorf("%s: it reads %q of what it has", level, got)
				}
				if err := s.Command(t.Context(), "sh", "-c", "echo x >"+filepath.Join(home, "new")).Run(); err == nil {
					t.Errorf("%s: it writes beside its workdir", level)
				}
			}
		})
	}
}

// Paths that are given by symbolic links work by these names.
func TestPathsOfAViewCanBeSymbolicLinks(t *testing.T) {
	dir, err := os.MkdirTemp("/var/lib", "podagent-test-") // not below the sandbox's /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	work, sdk := filepath.Join(dir, "real", "work"), filepath.Join(dir, "real", "sdk")
	if err := errors.Join(os.MkdirAll(work, 0o755), os.MkdirAll(sdk, 0o755), os.WriteFile(filepath.Join(sdk, "f"), []byte("sdk"), 0o644),
		os.Symlink("real", filepath.Join(dir, "link")), os.Symlink(sdk, filepath.Join(dir, "sdk"))); err != nil {
		t.Fatal(err)
	}
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		given := filepath.Join(dir, "link", "work")
		l.Readable = []string{filepath.Join(dir, "sdk")}
		s := launch(t, l, launcher.Spec{ID: "a", Workdir: given})
		for _, in := range []string{"", given, work} {
			cmd := s.Command(t.Context(), "sh", "-c", "pwd -P; cat "+l.Readable[0]+"/f "+sdk+"/f")
			cmd.Dir = in
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != work+"\nsdksdk" {
				t.Errorf("in %q: %v, %q", in, err, out)
			}
		}
		if err := s.WriteFile(t.Context(), filepath.Join(given, string(s.Isolation.Level)), []byte("x"), 0o600); err != nil {
			t.Error(err)
		}
	})
}

// A launch that fails before there is an agent leaves nothing.
func TestLaunchThatFailsEarlyLeavesNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []isolation.Mode{isolation.Auto, isolation.Off} {
		l := launchertest.Local(t)
		l.Isolation = mode
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a", Workdir: file}); err == nil {
			t.Errorf("%s: a file is the workdir", mode)
		}
		leavesNothing(t, l)
		l.Readable = []string{file + "-missing"}
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); err == nil || !strings.Contains(err.Error(), "Local.Readable") {
			t.Errorf("%s: a missing path is readable: %v", mode, err)
		}
		leavesNothing(t, l)
		l.Readable = []string{file}
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); errors.Is(err, launcher.ErrIsolation) != (mode == isolation.Off) {
			t.Errorf("%s: a file is readable: %v", mode, err)
		}
	}
}

// What docs/isolation.md says of readable directories inside the workdir.
func TestReadableDirectoryInsideTheWorkdir(t *testing.T) {
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		work := t.TempDir()
		l.Readable = []string{filepath.Join(work, "sub")}
		if err := os.Mkdir(l.Readable[0], 0o755); err != nil {
			t.Fatal(err)
		}
		s := launch(t, l, launcher.Spec{ID: "a", Workdir: work})
		_ = s.Command(t.Context(), "sh", "-c", "echo x >sub/f").Run()
		_ = s.WriteFile(t.Context(), "sub/g", []byte("x"), 0o644)
		written, err := os.ReadDir(l.Readable[0])
		if all := len(written) == 2; err != nil || all != (s.Isolation.Level == isolation.Landlock) || !all && len(written) > 0 {
			t.Errorf("%v is written, %v", written, err)
		}
		if err := s.WriteFile(t.Context(), "beside", []byte("x"), 0o644); err != nil {
			t.Error(err)
		}
	})
}
