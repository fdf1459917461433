package launcher_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/internal/gittest"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// ephemeral returns a launcher whose sandboxes have so many bytes of files in memory.
func ephemeral(t *testing.T, size int64) *launcher.Local {
	l := launchertest.Local(t)
	l.Isolation, l.Ephemeral = isolation.Auto, size
	return l
}

// filesWithout fails the test if any file below a directory has the text in it, and returns how many files there are.
func filesWithout(t *testing.T, dir, text string) (count int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		count++
		if strings.Contains(d.Name(), text) {
			t.Errorf("there is %s", path)
		}
		if d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if bytes.Contains(data, []byte(text)) {
				t.Errorf("%s has a trace: %q", path, data)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// What is in the sandbox never reaches a file of the machine, and is gone with the agent.
func TestEphemeralSandboxLeavesNothing(t *testing.T) {
	l := ephemeral(t, 64<<20)
	s := launch(t, l, launcher.Spec{ID: "a"})
	if s.Isolation.Level != isolation.Namespaces {
		t.Errorf("it is isolated by %+v", s.Isolation)
	}
	if err := s.WriteFile(t.Context(), "bait", []byte("bait"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, back := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "pushed"), []byte("bait"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Push(t.Context(), source, "tree", podapi.TransferOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pull(t.Context(), "tree", back, podapi.TransferOptions{}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(back, "pushed")); err != nil || string(data) != "bait" {
		t.Errorf("what was pushed comes back as %q, %v", data, err)
	}
	if got := output(t, s, `for dir in "$HOME" "$TMPDIR" /tmp /var/tmp /dev/shm; do echo bait >$dir/bait; done; cat bait tree/pushed; echo; cat $TMPDIR/bait`); got != "baitbait\nbait" {
		t.Errorf("a command printed %q", got)
	}
	if n := filesWithout(t, l.StateDir, "bait"); n == 0 {
		t.Error("nothing was looked at")
	}
	killAgents(t, l)
	filesWithout(t, l.StateDir, "bait")

	// It does not silently begin anew.
	_, opened := l.Open(t.Context(), "a")
	_, launched := l.Launch(t.Context(), launcher.Spec{ID: "a"})
	for _, err := range []error{opened, launched} {
		if !errors.Is(err, launcher.ErrEnded) || !errors.Is(err, launcher.ErrStale) {
			t.Errorf("once its agent is gone: %v", err)
		}
	}
	if summary, err := l.Find(t.Context(), "a"); err != nil || summary.State != launcher.Ended {
		t.Errorf("it is found as %+v, %v", summary, err)
	}
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	again := launch(t, l, launcher.Spec{ID: "a"})
	if got := output(t, again, `ls -A . "$HOME"`); strings.Contains(got, "bait") {
		t.Errorf("the next one has %q", got)
	}
}

func TestEphemeralSandboxHasAGitRepository(t *testing.T) {
	l := ephemeral(t, 64<<20)
	repository := filepath.Join(gittest.Repository(t, "one\n"), "r.git")
	l.Readable = []string{repository}
	s := launch(t, l, launcher.Spec{ID: "a", Git: &launcher.Git{URL: repository}})
	if got := output(t, s, "git status --short && git log --oneline | wc -l"); got != "1" {
		t.Errorf("git printed %q", got)
	}
}

// Content, names and empty files come to an end, for calls and for commands, and there is room again afterwards.
func TestEphemeralSandboxIsBounded(t *testing.T) {
	l := ephemeral(t, 8<<20)
	s := launch(t, l, launcher.Spec{ID: "a"})
	if err := s.WriteFile(t.Context(), "large", make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("writing too much: %v", err)
	}
	for _, script := range []string{
		`head -c 16M /dev/zero >"$HOME/large"`,
		`(head -c 6M /dev/zero >large) && head -c 6M /dev/zero >"$TMPDIR/large"`, // together
		`i=0; while [ $i -lt 5000 ]; do : >"f$i" || exit 1; i=$((i+1)); done`,
	} {
		out, err := s.Command(t.Context(), "sh", "-c", script).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "No space left on device") {
			t.Errorf("%s: %v: %.200s", script, err, out)
		}
		output(t, s, `rm -rf f* large "$HOME/large" "$TMPDIR/large"`)
	}
	if err := s.WriteFile(t.Context(), "small", make([]byte, 1<<20), 0o600); err != nil {
		t.Errorf("writing little: %v", err)
	}
}

func TestEphemeralSandboxTakesNamespacesOrFailsClosed(t *testing.T) {
	for _, mode := range []isolation.Mode{isolation.Off, isolation.Mode(isolation.Landlock)} {
		l := ephemeral(t, 8<<20)
		l.Isolation = mode
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrIsolation) {
			t.Errorf("at the level %q: %v", mode, err)
		}
	}
	l := ephemeral(t, 8<<20)
	l.Isolation = ""
	if s := launch(t, l, launcher.Spec{ID: "b"}); s.Isolation.Level != isolation.Namespaces {
		t.Errorf("without another word it is isolated by %+v", s.Isolation)
	}
	refusing(t, l, true, false)
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrIsolation) {
		t.Errorf("without namespaces: %v", err)
	}
}

func TestEphemeralIsRefusedWhereItMakesNoSense(t *testing.T) {
	for name, change := range map[string]func(*launcher.Local, *launcher.Spec){
		"below 0":   func(l *launcher.Local, _ *launcher.Spec) { l.Ephemeral = -1 },
		"too small": func(l *launcher.Local, _ *launcher.Spec) { l.Ephemeral = 1000 },
		"above its limit": func(l *launcher.Local, _ *launcher.Spec) {
			l.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		},
		"a workdir": func(_ *launcher.Local, spec *launcher.Spec) { spec.Workdir = t.TempDir() },
	} {
		l, spec := ephemeral(t, 128<<20), launcher.Spec{ID: "a"}
		change(l, &spec)
		if _, err := l.Launch(t.Context(), spec); err == nil {
			t.Errorf("%s is taken", name)
		}
		if _, err := l.Find(t.Context(), "a"); !errors.Is(err, launcher.ErrNotFound) {
			t.Errorf("%s: it is left: %v", name, err)
		}
	}
	l := launchertest.Local(t)
	launch(t, l, launcher.Spec{ID: "a"})
	l.Isolation, l.Ephemeral = isolation.Auto, 8<<20
	if _, err := l.Launch(t.Context(), launcher.Spec{ID: "a"}); !errors.Is(err, launcher.ErrIsolation) {
		t.Errorf("adopting one that is not: %v", err)
	}
}
