package e2e

// Parts of a sandbox that must not change: the agent protects some from its
// callers, and read-only mounts protect others from everybody.

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// protectedOf returns the protected paths that a sandbox reports.
func protectedOf(t *testing.T, s *launcher.Sandbox) []podapi.ProtectedPath {
	t.Helper()
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Protected
}

func byAgent(patterns ...string) (paths []podapi.ProtectedPath) {
	for _, p := range patterns {
		paths = append(paths, podapi.ProtectedPath{Path: p, By: podapi.ByAgent})
	}
	return paths
}

// changes are calls that change a file, by name.
func changes(t *testing.T, s *launcher.Sandbox, file string) map[string]error {
	t.Helper()
	ctx := t.Context()
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, filepath.Base(file)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Put(t, s, "free", "x")
	write := s.WriteFile(ctx, file, []byte("x"), 0o666)
	_, edit := s.Edit(ctx, file, []fsops.Edit{{Old: []byte("o"), New: []byte("x"), All: true}}, fsops.EditOptions{})
	_, push := s.Push(ctx, source, filepath.Dir(file), podapi.TransferOptions{})
	return map[string]error{
		"write": write, "edit": edit, "push": push,
		"mkdir":  s.MkdirAll(ctx, file+".d/x", 0o777),
		"remove": s.RemoveAll(ctx, filepath.Dir(file)),
		"rename": s.Rename(ctx, "free", file),
		"move":   s.Rename(ctx, file, "moved"),
		"copy":   s.Copy(ctx, "free", file, fsops.CopyOptions{}),
		"chmod":  s.Chmod(ctx, file, 0o777),
		"link":   s.Symlink(ctx, "/", file+".link"),
	}
}

func TestProtectedPathsAreNotChangedByCalls(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		spec.Protected = []string{".policies/", "**/*.lock"}
		s := harness.Launch(t, l, spec)
		if diff := cmp.Diff(byAgent(spec.Protected...), protectedOf(t, s)); diff != "" {
			t.Errorf("Info (-want +got):\n%s", diff)
		}
		harness.Run(t, s, "mkdir .policies; echo original >.policies/rules", nil)
		for name, err := range changes(t, s, ".policies/rules") {
			if !errors.Is(err, fsops.ErrProtected) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := harness.Get(t, s, ".policies/rules"); got != "original\n" {
			t.Errorf("it holds %q", got)
		}
		harness.Put(t, s, "src/go.mod", "x")
		if err := s.WriteFile(t.Context(), "src/go.lock", nil, 0o666); !errors.Is(err, fsops.ErrProtected) {
			t.Errorf("another pattern: %v", err)
		}
		// The agent does not prevent these changes.
		if _, _, status := harness.Run(t, s, "echo changed >.policies/rules", nil); status.Code != 0 {
			t.Errorf("a command: %v", status)
		}
	})
}

func TestLaunchReplacesProtectedPaths(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		spec.Env = []string{"KEPT=1"}
		for _, step := range []struct{ protected, want []string }{
			{[]string{"first"}, []string{"first"}},
			{[]string{"second", "third"}, []string{"second", "third"}},
			{nil, []string{"second", "third"}},
			{[]string{}, nil},
		} {
			spec.Protected = step.protected
			s := harness.Launch(t, l, spec)
			if diff := cmp.Diff(byAgent(step.want...), protectedOf(t, s)); diff != "" || len(s.Drift) > 0 {
				t.Errorf("launched with %q: drift %q, (-want +got):\n%s", step.protected, s.Drift, diff)
			}
			if out, _, _ := harness.Run(t, s, "echo $KEPT", nil); out != "1\n" {
				t.Errorf("launched with %q: the environment has %q", step.protected, out)
			}
			spec.Env = nil
		}
	})
}

func TestProtectedPathsOutliveTheAgent(t *testing.T) {
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		l := launchertest.Local(t)
		s := harness.Launch(t, l, launcher.Spec{ID: "a", Protected: []string{"keep"}})
		killAgent(t, agentPID(t, s))
		again, err := l.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if diff := cmp.Diff(byAgent("keep"), protectedOf(t, again)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("kubernetes", func(t *testing.T) {
		t.Parallel()
		c := launchertest.OwnCluster(t, launcher.Restricted)
		spec := c.Spec("a")
		spec.Protected = []string{"keep"}
		harness.Launch(t, c.Launcher(), spec).Close()
		spec.Protected = []string{"adopted"} // this is not what the pod was made with
		s := harness.Launch(t, c.Launcher(), spec)
		before, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.KillAgent(t, podUID(t, s))
		harness.Await(t, "another agent", func() bool {
			info, err := s.Info(t.Context())
			return err == nil && info.BootID != before.BootID
		})
		if diff := cmp.Diff(byAgent("adopted"), protectedOf(t, s)); diff != "" {
			t.Error(diff)
		}
	})
}

// checkReadOnly lets commands try to change a directory, and to mount it with other
// options.
func checkReadOnly(t *testing.T, s *launcher.Sandbox, dir string) {
	t.Helper()
	script := `touch $D/x; echo >$D/x; rm -rf $D; mv $D /tmp/moved; chmod 777 $D; mount -o remount,rw $D; ls $D/x; true`
	_, stderr, _ := harness.Run(t, s, script, func(cmd *podapi.Cmd) { cmd.Env = append(cmd.Env, "D="+dir) })
	if strings.Count(stderr, "Read-only file system") < 3 || !strings.Contains(stderr, "cannot access") {
		t.Errorf("%s is not read-only:\n%s", dir, stderr)
	}
}

// checkReadOnlyCalls lets calls try to change a file.
func checkReadOnlyCalls(t *testing.T, s *launcher.Sandbox, file string) {
	t.Helper()
	for name, err := range changes(t, s, file) {
		if !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EXDEV) { // EXDEV means another file system
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadOnlyDirectoriesAreReadOnlyForAll(t *testing.T) {
	t.Parallel()
	for _, profile := range []launcher.Profile{launcher.Restricted, launcher.Baseline} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, profile)
			spec := c.Spec("a")
			spec.Pod.Profile = profile
			spec.Protected = []string{"*.lock"}
			dirs := []launcher.ReadOnlyDir{
				{Path: "/workspace/.rules", From: "/etc/skel"},
				{Path: "/workspace/deep/empty"},
				{Path: "/home"}, // a restricted pod has a volume there
				{Path: "/etc/ssl/certs", From: "/etc/ssl/certs"},
			}
			spec.Pod.ReadOnly = dirs
			s := harness.Launch(t, c.Launcher(), spec)
			want := byAgent("*.lock")
			for _, d := range dirs {
				want = append(want, podapi.ProtectedPath{Path: d.Path, By: podapi.ByMount})
			}
			if diff := cmp.Diff(want, protectedOf(t, s)); diff != "" {
				t.Errorf("Info (-want +got):\n%s", diff)
			}
			for _, dir := range []string{"/workspace/.rules", "/workspace/deep/empty", "/etc/ssl/certs", "/home"} {
				checkReadOnly(t, s, dir)
			}
			out, _, _ := harness.Run(t, s, "ls -A .rules deep/empty | sort; diff -r /etc/skel .rules && test -s /etc/ssl/certs/ca-certificates.crt && echo content; echo x >~/x && echo home", nil)
			if !strings.Contains(out, ".bashrc") || !strings.Contains(out, "content\n") || !strings.Contains(out, "home\n") {
				t.Errorf("inside: %q", out)
			}
			checkReadOnlyCalls(t, s, ".rules/.bashrc")
		})
	}
}

func TestWorkdirCanBeReadOnly(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/workspace", From: "/etc/skel"}}
	s := harness.Launch(t, c.Launcher(), spec)
	if harness.Get(t, s, ".bashrc") == "" {
		t.Error("the workdir was not filled")
	}
	if err := s.WriteFile(t.Context(), "x", nil, 0o666); !errors.Is(err, syscall.EROFS) {
		t.Errorf("the workdir is writable: %v", err)
	}
}

func TestReadOnlyDirectoryThatCannotBeFilledIsSaidToBe(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/rules", From: "/no/such/dir"}}
	spec.Take.ReadyTimeout = harness.Hung
	_, err := c.Launcher().Launch(t.Context(), spec)
	if !errors.Is(err, launcher.ErrCrashLoop) || !strings.Contains(err.Error(), "copy /no/such/dir") {
		t.Errorf("Launch: %v", err)
	}
}

func TestOtherReadOnlyDirectoriesAreDrift(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/rules"}}
	harness.Launch(t, c.Launcher(), spec)
	if s := harness.Launch(t, c.Launcher(), spec); len(s.Drift) > 0 {
		t.Errorf("the same Spec drifts: %q", s.Drift)
	}
	spec.Pod.ReadOnly = nil
	if s := harness.Launch(t, c.Launcher(), spec); len(s.Drift) != 1 || !strings.Contains(s.Drift[0], `readOnly is [{"path":"/rules"}], not unset`) {
		t.Errorf("the drift is %q", s.Drift)
	}
	spec.Take.OnDrift = launcher.DriftError
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrDrift) {
		t.Errorf("Launch: %v", err)
	}
}
