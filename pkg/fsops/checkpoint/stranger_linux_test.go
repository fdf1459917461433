// A race detector sees nothing of other processes.

//go:build !race

package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// The variables have the directory in which a process that is not root does something.
const (
	strangerVariable = "PODAGENT_CHECKPOINT_STRANGER"
	readOnlyVariable = "PODAGENT_CHECKPOINT_READONLY"
)

// actAsStranger makes, compares and restores a checkpoint of a tree with files of others, and prints what it lacks.
func actAsStranger(dir string) error {
	ctx, tree := context.Background(), filepath.Join(dir, "tree")
	s, err := checkpoint.Open(filepath.Join(dir, "store"), tree, checkpoint.Options{})
	if err != nil {
		return err
	}
	c, err := s.Create(ctx, checkpoint.CreateOptions{})
	if err != nil {
		return err
	}
	for _, l := range c.LeftOut {
		fmt.Println("left out", l.Path, l.Why)
	}
	closed := filepath.Join(tree, "closed")
	err = errors.Join(os.Remove(filepath.Join(tree, "theirs")), os.Remove(filepath.Join(tree, "tool")), os.WriteFile(closed, nil, 0), os.Chmod(filepath.Join(tree, "own"), 0))
	if err != nil {
		return err
	}
	for d, err := range s.Diff(ctx, c.ID, "", checkpoint.DiffOptions{}) {
		if err != nil {
			return err
		}
		fmt.Println(d.How, d.Path, d.NoDiff)
	}
	if err := os.Chmod(filepath.Join(tree, "own"), 0o755); err != nil {
		return err
	}
	done, err := s.Restore(ctx, c.ID, checkpoint.RestoreOptions{})
	for _, l := range done.Kept {
		fmt.Println("kept", l.Path, l.Why)
	}
	if !errors.Is(err, checkpoint.ErrIncomplete) {
		return fmt.Errorf("restoring: %w", err)
	}
	return nil
}

// Who is not root can neither read nor own what is others'. A checkpoint, a diff and a restore say so.
func TestFilesOfOthersAreNamed(t *testing.T) {
	dir := nobodysDir(t)
	root := filepath.Join(dir, "tree")
	writeFiles(t, root, map[string]string{"theirs": "1", "tool": "1", "secret": "1", "hidden/x": "1", "own/x": "1"})
	err := errors.Join(
		os.Chmod(filepath.Join(root, "tool"), 0o755|fs.ModeSetuid), os.Chmod(filepath.Join(root, "secret"), 0o600), os.Chmod(filepath.Join(root, "hidden"), 0o700),
		os.Chown(root, nobody, nobody), os.Chown(filepath.Join(root, "own"), nobody, nobody),
	)
	if err != nil {
		t.Fatal(err)
	}
	out := runAsNobody(t, strangerVariable, dir)
	want := `left out hidden permission denied
left out secret permission denied
removed theirs 
removed tool 
unreadable closed permission denied
unreadable hidden permission denied
unreadable own permission denied
unreadable secret permission denied
kept closed permission denied
kept theirs it cannot belong to 0:0: operation not permitted
kept tool it cannot belong to 0:0: operation not permitted
`
	if diff := cmp.Diff(strings.SplitAfter(want, "\n"), strings.SplitAfter(out, "\n")); diff != "" {
		t.Error(diff)
	}
	for name, mode := range map[string]fs.FileMode{"theirs": 0o644, "tool": 0o755} {
		if info, err := os.Lstat(filepath.Join(root, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// restoreReadOnlyDirectories restores a tree with directories without write permission, all of it, some of it, and an empty one.
func restoreReadOnlyDirectories(dir string) error {
	ctx, root := context.Background(), filepath.Join(dir, "tree")
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		return err
	}
	readOnly := []string{filepath.Join(root, "ro/sub"), filepath.Join(root, "ro")}
	err = errors.Join(os.MkdirAll(readOnly[0], 0o755), os.WriteFile(filepath.Join(root, "ro/a"), []byte("1"), 0o644))
	for _, name := range []string{"ro/b", "ro/sub/c", "d"} {
		err = errors.Join(err, os.Link(filepath.Join(root, "ro/a"), filepath.Join(root, name)))
	}
	for _, path := range readOnly {
		err = errors.Join(err, os.Chmod(path, 0o555))
	}
	c, createErr := s.Create(ctx, checkpoint.CreateOptions{})
	if err = errors.Join(err, createErr); err != nil {
		return err
	}
	remove := func(paths ...string) error {
		err := errors.Join(os.Chmod(readOnly[1], 0o755), os.Chmod(readOnly[0], 0o755))
		for _, path := range paths {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, path)))
		}
		return err
	}
	restore := func(paths ...string) error {
		_, err := s.Restore(ctx, c.ID, checkpoint.RestoreOptions{Paths: paths})
		return err
	}
	for _, change := range []func() error{
		func() error { return errors.Join(remove("ro", "d"), restore()) },
		func() error { return errors.Join(remove("ro/b", "ro/sub/c"), restore("ro")) },
		func() error { return errors.Join(remove("ro/a", "ro/b", "ro/sub", "d"), restore("ro", "d")) },
		func() error {
			err := remove("ro", "d")
			_, populateErr := s.Populate(ctx, c.ID)
			return errors.Join(err, populateErr)
		},
	} {
		if err := change(); err != nil {
			return err
		}
		for d, err := range s.Diff(ctx, c.ID, "", checkpoint.DiffOptions{}) {
			if err != nil {
				return err
			}
			fmt.Println(d.How, d.Path)
		}
	}
	return nil
}

// Directories without write permission come back with all hard links in them, also without the rights of root.
func TestReadOnlyDirectoriesComeBackWithTheirLinks(t *testing.T) {
	dir := nobodysDir(t)
	root := filepath.Join(dir, "tree")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Chown(root, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	if out := runAsNobody(t, readOnlyVariable, dir); out != "" {
		t.Errorf("after restores, these are not as they were:\n%s", out)
	}
}

// nobody is the id of a user who may do no more than any other.
const nobody = 65534

// nobodysDir returns a directory of nobody's.
func nobodysDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "checkpoint-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chown(dir, nobody, nobody), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runAsNobody has nobody do what a variable stands for, and returns what that prints.
func runAsNobody(t *testing.T, variable, dir string) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe") // whose own path others may not reach
	cmd.Env = append(os.Environ(), variable+"="+dir)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
