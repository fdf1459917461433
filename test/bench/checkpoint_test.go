package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// What checkpoints may take: the first one beside a copy of the tree, and others in milliseconds.
const (
	checkpointFirst   = 1.2
	checkpointLater   = 250
	checkpointSmall   = 40
	checkpointRestore = 300
)

const (
	checkpointRounds = 10
	copyRounds       = 4 // of what writes the tree to the disk
	peerRounds       = 1 // of what takes half a minute
	changedFiles     = 10
)

// BenchmarkCheckpoint measures checkpoints of a tree on this machine's disk, in an agent, beside cp, and beside git and
// restic, which have their repositories elsewhere; and forks into other pods. What was written is on the disk before each
// call. Nothing is removed until the end: for minutes afterwards, ext4 would take ten times as long to make a file. So
// nobody should have removed many files for ten minutes before, either.
func BenchmarkCheckpoint(b *testing.B) {
	for _, program := range []string{"git", "restic"} {
		if _, err := exec.LookPath(program); err != nil {
			b.Fatalf("this compares with %s, of Debian's package of that name: %v", program, err)
		}
	}
	planted := filepath.Join(b.TempDir(), "tree")
	if err := plantTree(planted, *groveFiles); err != nil {
		b.Fatal(err)
	}
	g := newGrove(b, planted)
	peers := newRepositories(b, g.Workdir)
	compare(b, "checkpoints", "first checkpoint of "+groveName()+", beside backups", peerRounds, firstCheckpoint(b, planted),
		side{name: "git add and commit", timed: peers.firstCommit}, side{name: "restic backup", timed: peers.firstBackup})
	first := g.checkpoint(b)
	store := filepath.Join(filepath.Dir(g.Workdir), "checkpoints")
	publish(b, newRow("checkpoints", "store of a checkpoint of "+groveName(), "MiB", once("podagent", diskUse(b, store))).
		beside(once("git", diskUse(b, peers.git))).beside(once("restic", diskUse(b, peers.restic))).beside(once("the tree", diskUse(b, g.Workdir)))).want("the tree", 1)
	compare(b, "checkpoints", "checkpoint after 10 changed files of "+groveCount(), checkpointRounds, g.side("podagent", g.takeCheckpoint(b)),
		g.side("git add and commit", peers.commit), g.side("restic backup", peers.backup)).limit("limit", checkpointLater)
	compare(b, "checkpoints", "restore of 10 changed files of "+groveCount(), checkpointRounds, g.side("podagent", g.restore(b, first)),
		g.side("git reset --hard", peers.reset), g.side("restic restore of their paths", peers.restore)).limit("limit", checkpointRestore)
	firstCheckpoints(b, planted)
	b.Run("fork", func(b *testing.B) { measureForks(b, planted) })
	b.Run("small", smallCheckpoints)
}

func smallCheckpoints(b *testing.B) {
	planted := filepath.Join(b.TempDir(), "tree")
	if err := plantTree(planted, groveSmallFiles); err != nil {
		b.Fatal(err)
	}
	g := newGrove(b, planted)
	g.checkpoint(b)
	peers := newRepositories(b, g.Workdir)
	for _, first := range []func() (time.Duration, error){peers.firstCommit, peers.firstBackup} {
		if _, err := first(); err != nil {
			b.Fatal(err)
		}
	}
	compare(b, "checkpoints", "checkpoint after 10 changed files of 5,000", checkpointRounds, g.side("podagent", g.takeCheckpoint(b)),
		g.side("git add and commit", peers.commit), g.side("restic backup", peers.backup)).limit("limit", checkpointSmall)
}

// firstCheckpoints measures checkpoints of new trees beside copies of a tree.
func firstCheckpoints(b *testing.B, planted string) {
	copies := 0
	target := func() string { return filepath.Join(filepath.Dir(planted), "copy"+strconv.Itoa(copies)) }
	r := compare(b, "checkpoints", "first checkpoint of "+groveName(), copyRounds, firstCheckpoint(b, planted), side{
		name:  "cp -a",
		do:    func() error { return run(b.Context(), "cp", "-a", planted, target()) },
		after: func() error { err := emptyFiles(b.Context(), target()); copies++; return err },
	})
	r.want("cp -a", 1/checkpointFirst)
}

// firstCheckpoint is the side that makes the first checkpoint of a new sandbox with a copy of a tree.
func firstCheckpoint(b *testing.B, planted string) side {
	return side{name: "podagent", timed: func() (took time.Duration, err error) {
		g := newGrove(b, planted)
		begun := time.Now()
		_, err = g.Checkpoint(b.Context(), checkpoint.CreateOptions{})
		took = time.Since(begun)
		if err == nil {
			err = g.empty(b.Context())
		}
		return took, err
	}}
}

// emptyFiles gives the room of a tree back, but no file, and waits for the disk.
func emptyFiles(ctx context.Context, dir string) error {
	return run(ctx, "sh", "-c", emptying+` && sync`, dir)
}

// emptying is a script that empties the files below a directory.
const emptying = `find "$0" -type f -exec truncate -s 0 {} +`

func run(ctx context.Context, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", c, err, out)
	}
	return nil
}

// A grove is a sandbox with a copy of a tree, in which files change.
type grove struct {
	*launcher.Sandbox
	changes int
}

var groves int

func newGrove(b *testing.B, planted string) *grove {
	b.Helper()
	groves++
	s, err := launchertest.Local(b).Launch(b.Context(), launcher.Spec{ID: "grove-" + strconv.Itoa(groves)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	g := &grove{Sandbox: s}
	if err := run(b.Context(), "sh", "-c", `cp -a "$0/." "$1/" && sync`, planted, g.Workdir); err != nil {
		b.Fatal(err)
	}
	return g
}

// empty gives the room of the sandbox's files and checkpoints back.
func (g *grove) empty(ctx context.Context) error {
	return errors.Join(emptyFiles(ctx, g.Workdir), emptyFiles(ctx, filepath.Join(filepath.Dir(g.Workdir), "checkpoints")))
}

// side is a side that does something once after each change, so that all sides of a row see the same ones.
func (g *grove) side(name string, do func() error) side {
	seen := g.changes
	return side{name: name, timed: func() (time.Duration, error) {
		if seen == g.changes {
			if err := g.change(); err != nil {
				return 0, err
			}
		}
		seen++
		begun := time.Now()
		err := do()
		return time.Since(begun), err
	}}
}

// change writes ten files anew, in as many directories.
func (g *grove) change() error {
	g.changes++
	for i := range changedFiles {
		if err := os.WriteFile(changedPath(g.Workdir, i), fmt.Appendf(nil, "package changed // %d\n", g.changes), 0o644); err != nil {
			return err
		}
	}
	return run(context.Background(), "sync")
}

// changedPath is that of one of the files that change.
func changedPath(tree string, i int) string {
	return grovePath(tree, i*groveSmallFiles/changedFiles+1)
}

func (g *grove) checkpoint(b *testing.B) checkpoint.ID {
	b.Helper()
	c, err := g.Checkpoint(b.Context(), checkpoint.CreateOptions{Name: "first"})
	if err != nil {
		b.Fatal(err)
	}
	return c.ID
}

func (g *grove) takeCheckpoint(b *testing.B) func() error {
	return func() error {
		_, err := g.Checkpoint(b.Context(), checkpoint.CreateOptions{})
		return err
	}
}

func (g *grove) restore(b *testing.B, id checkpoint.ID) func() error {
	return func() error {
		done, err := g.Restore(b.Context(), id, checkpoint.RestoreOptions{})
		if err == nil && done.Changed < changedFiles {
			err = fmt.Errorf("it has restored %d files", done.Changed)
		}
		return err
	}
}

// repositories are those of git and restic for a tree.
type repositories struct {
	b                 *testing.B
	tree, git, restic string
	memory            float64 // MiB that a program of the last call had at most
}

func newRepositories(b *testing.B, tree string) *repositories {
	dir := b.TempDir()
	return &repositories{b: b, tree: tree, git: filepath.Join(dir, "git"), restic: filepath.Join(dir, "restic")}
}

// script returns a call of a shell, in the tree.
func (r *repositories) script(text string) func() error {
	return func() error {
		c := exec.CommandContext(r.b.Context(), "sh", "-ec", text)
		c.Dir = r.tree
		c.Env = append(os.Environ(), "GIT_DIR="+r.git, "GIT_WORK_TREE="+r.tree, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a", "RESTIC_REPOSITORY="+r.restic, "RESTIC_PASSWORD=p", "RESTIC_CACHE_DIR="+r.restic+"-cache")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", text, err, out)
		}
		r.memory = float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024 // of the shell's children, too
		return nil
	}
}

const commit = `git add -A && git -c gc.auto=0 commit -q -m m`

func (r *repositories) commit() error { return r.script(commit)() }
func (r *repositories) reset() error  { return r.script(`git reset -q --hard`)() }
func (r *repositories) backup() error { return r.script(`restic backup -q .`)() }

// restore brings the files that change back from the first backup. Without their paths, restic writes all files anew.
func (r *repositories) restore() error {
	text := "restic restore -q latest --tag first --target ."
	for i := range changedFiles {
		text += " --include " + changedPath(".", i)
	}
	return r.script(text)()
}

// firstCommit commits the tree to a new repository.
func (r *repositories) firstCommit() (time.Duration, error) {
	return r.first(`rm -rf "$GIT_DIR"; git init -q; sync`, r.commit)
}

// firstBackup makes the first backup of the tree in a new repository.
func (r *repositories) firstBackup() (time.Duration, error) {
	return r.first(`rm -rf "$RESTIC_REPOSITORY"* && restic init -q; sync`, r.script(`restic backup -q --tag first .`))
}

func (r *repositories) first(before string, do func() error) (time.Duration, error) {
	if err := r.script(before)(); err != nil {
		return 0, err
	}
	begun := time.Now()
	err := do()
	return time.Since(begun), err
}

// diskUse returns how many MiB of the disk a directory takes.
func diskUse(b *testing.B, dir string) float64 {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), "du", "-s", "-B1", dir).Output()
	if err != nil {
		b.Fatal(err)
	}
	number, _, _ := strings.Cut(string(out), "\t")
	bytes, err := strconv.ParseFloat(number, 64)
	if err != nil {
		b.Fatal(err)
	}
	return bytes / (1 << 20)
}
