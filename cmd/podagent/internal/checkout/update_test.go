package checkout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
	"github.com/podagent/podagent/internal/gittest"
)

// cloned returns a source and a clone of its main branch.
func cloned(t *testing.T) (s *source, dir string, o checkout.Options) {
	t.Helper()
	s, dir = newSource(t), emptyDir(t)
	o = checkout.Options{Dir: dir, URL: s.bare}
	run(t, o)
	return s, dir, o
}

func TestUpdateFastForwardsAndKeepsUntrackedFiles(t *testing.T) {
	s, dir, o := cloned(t)
	write(t, filepath.Join(dir, "untracked.txt"), "mine")
	third := s.commit("file.txt", "three\n")
	if got, want := run(t, o), (checkout.Result{Commit: third, Ref: "refs/heads/main", Changed: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := read(t, filepath.Join(dir, "file.txt")) + read(t, filepath.Join(dir, "untracked.txt")); got != "three\nmine" {
		t.Errorf("the files are %q", got)
	}
	if got := gittest.Run(t, dir, "status", "--porcelain", "--branch"); got != "## main...origin/main\n?? untracked.txt" {
		t.Errorf("the status is %q", got)
	}
}

func TestUpdateGoesFromRefToRef(t *testing.T) {
	s, dir, o := cloned(t)
	kinds := refKinds(t, s)
	for _, ref := range []string{"feature/x", "annotated", "main", kinds["refs/pull/1/head"], "light", "feature/x", ""} {
		o.Ref = ref
		if got := run(t, o); got.Commit != kinds[ref] || !got.Changed || gittest.Run(t, dir, "rev-parse", "HEAD") != kinds[ref] {
			t.Errorf("at %q: %+v", ref, got)
		}
	}
	if got := gittest.Run(t, dir, "for-each-ref", "--format=%(refname)", "refs/podagent", "refs/tags"); got != "refs/tags/annotated\nrefs/tags/light" {
		t.Errorf("the refs are %q", got)
	}
}

// Each of these makes local work in a clone, and has the text that Kept then
// contains. Meanwhile the source gets another commit, which changes file.txt and
// adds conflict.txt.
var localWork = map[string]struct {
	work func(t *testing.T, s *source, dir string)
	kept string
}{
	"an edited file": {func(t *testing.T, _ *source, dir string) {
		write(t, filepath.Join(dir, "file.txt"), "mine\n")
	}, "uncommitted changes: M file.txt"},
	"another edited file, marked as unchanged": {func(t *testing.T, _ *source, dir string) {
		gittest.Run(t, dir, "update-index", "--assume-unchanged", "file.txt")
		write(t, filepath.Join(dir, "file.txt"), "mine\n")
	}, "would be overwritten"},
	"a staged file": {func(t *testing.T, _ *source, dir string) {
		write(t, filepath.Join(dir, "new.txt"), "mine\n")
		gittest.Run(t, dir, "add", "new.txt")
	}, "uncommitted changes: A  new.txt"},
	"a removed file": {func(t *testing.T, _ *source, dir string) {
		if err := os.Remove(filepath.Join(dir, "file.txt")); err != nil {
			t.Fatal(err)
		}
	}, "uncommitted changes: D file.txt"},
	"an untracked file in the way": {func(t *testing.T, _ *source, dir string) {
		write(t, filepath.Join(dir, "conflict.txt"), "mine\n")
	}, "would be overwritten"},
	"an ignored file in the way": {func(t *testing.T, _ *source, dir string) {
		write(t, filepath.Join(dir, ".git/info/exclude"), "conflict.txt\n")
		write(t, filepath.Join(dir, "conflict.txt"), "mine\n")
	}, "would be overwritten"},
	"a commit": {func(t *testing.T, _ *source, dir string) {
		write(t, filepath.Join(dir, "mine.txt"), "mine\n")
		gittest.Run(t, dir, "add", "-A")
		gittest.Run(t, dir, "commit", "-q", "-m", "mine")
	}, "HEAD was moved: it is "},
	"a commit back": {func(t *testing.T, _ *source, dir string) {
		gittest.Run(t, dir, "reset", "-q", "--hard", "HEAD~1")
	}, "HEAD was moved: it is "},
	"another branch": {func(t *testing.T, _ *source, dir string) {
		gittest.Run(t, dir, "checkout", "-q", "-b", "mine")
	}, `HEAD was moved from branch "main" to branch "mine"`},
	"no branch": {func(t *testing.T, _ *source, dir string) {
		gittest.Run(t, dir, "checkout", "-q", "--detach")
	}, `HEAD was moved from branch "main" to commit `},
	"a merge in progress": {func(t *testing.T, _ *source, dir string) {
		gittest.Run(t, dir, "checkout", "-q", "-b", "mine", "HEAD~1")
		gittest.Run(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
		gittest.Run(t, dir, "checkout", "-q", "main")
		gittest.Run(t, dir, "merge", "--no-commit", "mine")
	}, "a merge is under way"},
	"a git that still works there": {func(t *testing.T, _ *source, dir string) {
		write(t, filepath.Join(dir, ".git/index.lock"), "")
	}, "index.lock"},
	"a rewritten remote": {func(t *testing.T, s *source, _ string) {
		gittest.Run(t, s.work, "reset", "-q", "--hard", "HEAD~2")
		s.commit("file.txt", "other\n")
	}, `branch "main" of origin was rewritten`},
}

func TestLocalWorkStaysAndIsReported(t *testing.T) {
	for name, c := range localWork {
		t.Run(name, func(t *testing.T) {
			s, dir, o := cloned(t)
			write(t, filepath.Join(s.work, "conflict.txt"), "theirs\n")
			s.commit("file.txt", "three\n")
			c.work(t, s, dir)
			before := snapshot(t, dir)
			got := run(t, o)
			if got.Changed || !strings.Contains(got.Kept, c.kept) || got.Commit != gittest.Run(t, dir, "rev-parse", "HEAD") {
				t.Errorf("got %+v, want kept because %q", got, c.kept)
			}
			if after := snapshot(t, dir); after != before {
				t.Errorf("it was\n%s\nand is\n%s", before, after)
			}
		})
	}
}

// snapshot describes what in a work tree belongs to the user.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	all.WriteString(gittest.Run(t, dir, "status", "--porcelain", "--branch", "--ignored", "--untracked-files=all") + "\n")
	all.WriteString(gittest.Run(t, dir, "for-each-ref", "refs/heads", "refs/tags") + "\n")
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return filepath.SkipDir
		case !d.IsDir():
			all.WriteString(path + ": " + read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// How far the branch is behind origin is not part of it.
	lines := strings.Split(all.String(), "\n")
	lines[0], _, _ = strings.Cut(lines[0], " [")
	return strings.Join(lines, "\n")
}

func TestBranchWithCommitsOfItsOwnStays(t *testing.T) {
	s, dir, o := cloned(t)
	gittest.Run(t, s.work, "checkout", "-q", "-b", "dev")
	s.commit("file.txt", "dev\n")
	gittest.Run(t, dir, "branch", "dev", "HEAD~1")
	gittest.Run(t, dir, "checkout", "-q", "dev")
	gittest.Run(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
	gittest.Run(t, dir, "checkout", "-q", "main")
	o.Ref = "dev"
	mine := gittest.Run(t, dir, "rev-parse", "dev")
	if got := run(t, o); !strings.Contains(got.Kept, `branch "dev" has commits that origin's has not`) || got.Changed {
		t.Errorf("got %+v", got)
	}
	if got := gittest.Run(t, dir, "rev-parse", "dev"); got != mine {
		t.Errorf("dev is %s", got)
	}
	// A branch that is only behind is updated.
	gittest.Run(t, dir, "branch", "-f", "dev", "main")
	if got := run(t, o); got.Commit != s.id("dev") || !got.Changed || gittest.Run(t, dir, "rev-parse", "--abbrev-ref", "HEAD") != "dev" {
		t.Errorf("got %+v", got)
	}
}

func TestWorkTreeOfAnotherRepositoryIsRefused(t *testing.T) {
	s, dir, o := cloned(t)
	gittest.Run(t, dir, "remote", "set-url", "origin", "https://user:hunter2@example.com/other.git")
	fails(t, o, "is a git work tree of https://example.com/other.git, not of "+s.bare)
	gittest.Run(t, dir, "remote", "remove", "origin")
	fails(t, o, "without a remote named origin", s.bare)
	gittest.Run(t, dir, "config", "core.worktree", t.TempDir())
	fails(t, o, "is not the top of its git work tree")
}

func TestWorkTreeThatSomebodyElseCloned(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	gittest.Run(t, "", "clone", "-q", s.bare, dir)
	o := checkout.Options{Dir: dir, URL: s.bare}
	third := s.commit("file.txt", "three\n")
	if got := run(t, o); got.Commit != third || !got.Changed {
		t.Errorf("got %+v", got)
	}
	if err := os.Remove(filepath.Join(dir, ".git/podagent-checkout")); err != nil {
		t.Fatal(err)
	}
	gittest.Run(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
	s.commit("file.txt", "four\n")
	if got := run(t, o); got.Changed || !strings.Contains(got.Kept, "which origin may not have") {
		t.Errorf("got %+v", got)
	}
}

func TestShallowWorkTreeIsUpdated(t *testing.T) {
	s, dir := newSource(t), emptyDir(t)
	gittest.Run(t, "", "clone", "-q", "--depth=1", "file://"+s.bare, dir)
	// A server may omit content of earlier commits, so it is missing here.
	third := s.commit("file.txt", "one\n")
	if got := run(t, checkout.Options{Dir: dir, URL: "file://" + s.bare}); got.Commit != third || !got.Changed {
		t.Errorf("got %+v", got)
	}
}

// A run that is killed after it has moved HEAD has not recorded the move yet.
func TestUpdateThatWasKilledIsNotTakenForTheUsersDoing(t *testing.T) {
	s, dir, o := cloned(t)
	first, third := s.id("main"), s.commit("file.txt", "three\n")
	gittest.Run(t, dir, "pull", "-q")
	record := `[{"commit":"` + first + `","branch":"main"},{"commit":"` + third + `","branch":"main"}]`
	write(t, filepath.Join(dir, ".git/podagent-checkout"), record)
	fourth := s.commit("file.txt", "four\n")
	if got := run(t, o); got.Commit != fourth || !got.Changed {
		t.Errorf("got %+v", got)
	}
}

func TestUpdateRecordsItsTargetBeforeItMoves(t *testing.T) {
	s, dir, o := cloned(t)
	first, third := s.id("main"), s.commit("file.txt", "three\n")
	// The filter runs in the middle of the move.
	log := filepath.Join(t.TempDir(), "log")
	write(t, filepath.Join(dir, ".git/info/attributes"), "file.txt filter=look\n")
	gittest.Run(t, dir, "config", "filter.look.smudge", "cp .git/podagent-checkout "+log+"; cat")
	run(t, o)
	if got := read(t, log); !strings.Contains(got, first) || !strings.Contains(got, third) {
		t.Errorf("the record was %s", got)
	}
	if got := read(t, filepath.Join(dir, ".git/podagent-checkout")); strings.Contains(got, first) {
		t.Errorf("the record is %s", got)
	}
}

func TestSubmodulesAreNotTouched(t *testing.T) {
	s, other := newSource(t), newSource(t)
	gittest.Run(t, s.work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other.bare, "module")
	s.commit("file.txt", "three\n")
	dir := emptyDir(t)
	o := checkout.Options{Dir: dir, URL: s.bare}
	run(t, o)
	if got := names(t, filepath.Join(dir, "module")); got != "" {
		t.Errorf("the submodule has %s", got)
	}
	if got := run(t, o); got.Kept != "" || got.Changed {
		t.Errorf("got %+v", got)
	}
}
