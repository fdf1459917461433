package launcher_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// refusedWorkdir launches a sandbox with a workdir that must be refused in these words.
func refusedWorkdir(t *testing.T, l *launcher.Local, path, says string) {
	t.Helper()
	_, err := l.Launch(t.Context(), launcher.Spec{ID: "refused", Workdir: path})
	if wrong, ok := errors.AsType[*launcher.SpecError](err); !ok || wrong.Field != "Workdir" || !strings.Contains(wrong.Msg, says) {
		t.Errorf("the workdir %s: %v", path, err)
	}
}

// Code in a sandbox cannot choose what the next sandbox has, by a link in a workdir that is also named to the next one.
func TestLinkOfASandboxLeadsTheNextOneNowhere(t *testing.T) {
	eachIsolation(t, func(t *testing.T, l *launcher.Local) {
		victim, work := t.TempDir(), t.TempDir()
		if err := os.Mkdir(filepath.Join(victim, "keys"), 0o700); err != nil {
			t.Fatal(err)
		}
		s := launch(t, l, launcher.Spec{ID: "a", Workdir: work})
		output(t, s, "ln -s "+victim+" sub; mkdir d; ln -s ../sub d/again; ln -s /proc/self/root"+victim+" root; ln -s loop loop; ln -s d inside")
		for _, path := range []string{"sub", "sub/keys", "sub/new", "d/again", "d/../sub/keys", "root"} {
			path = work + "/" + path
			refusedWorkdir(t, l, path, "another sandbox may have made it")
			l.Readable = []string{path}
			if _, err := l.Launch(t.Context(), launcher.Spec{ID: "refused"}); err == nil || !strings.Contains(err.Error(), "Local.Readable: ") {
				t.Errorf("%s is readable: %v", path, err)
			}
			l.Readable = nil
		}
		if _, err := l.Launch(t.Context(), launcher.Spec{ID: "refused", Workdir: filepath.Join(work, "loop")}); err == nil {
			t.Error("a link to itself is followed")
		}
		if left, err := os.ReadDir(victim); err != nil || len(left) != 1 {
			t.Errorf("outside there is %v, %v", left, err)
		}
		within := launch(t, l, launcher.Spec{ID: "within", Workdir: filepath.Join(work, "inside")})
		if within.Workdir != filepath.Join(work, "d") {
			t.Errorf("the workdir is %s", within.Workdir)
		}
	})
}

// No isolated sandbox can change a home, so that links in it are the user's own.
func TestLinkInTheHomeLeadsAnywhere(t *testing.T) {
	home, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("HOME", home)
	if err := os.Symlink(elsewhere, filepath.Join(home, "work")); err != nil {
		t.Fatal(err)
	}
	l := launchertest.Local(t)
	l.Isolation = isolation.Require
	if s := launch(t, l, launcher.Spec{ID: "a", Workdir: filepath.Join(home, "work", "new")}); s.Workdir != filepath.Join(elsewhere, "new") {
		t.Errorf("the workdir is %s", s.Workdir)
	}
}

// A sandbox that could change the program of its agent would choose no isolation at the next start.
func TestWorkdirHasNoAgentInIt(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = isolation.Require
	agent, copied, linked := l.Agent, t.TempDir(), t.TempDir()
	if err := errors.Join(copyFile(agent, filepath.Join(copied, "podagent")), os.Symlink(agent, filepath.Join(linked, "podagent"))); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{copied, linked} {
		l.Agent = filepath.Join(dir, "podagent")
		refusedWorkdir(t, l, dir, "keeps sandboxes in")
	}
	l.Agent, l.Readable = filepath.Join(copied, "podagent"), []string{copied}
	launch(t, l, launcher.Spec{ID: "a"})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
