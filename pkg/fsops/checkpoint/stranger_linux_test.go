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

const strangerVariable = "PODAGENT_CHECKPOINT_STRANGER"

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
	const uid = 65534
	dir, err := os.MkdirTemp("", "checkpoint-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	root := filepath.Join(dir, "tree")
	sow(t, root, map[string]string{"theirs": "1", "tool": "1", "secret": "1", "hidden/x": "1", "own/x": "1"})
	err = errors.Join(
		os.Chmod(filepath.Join(root, "tool"), 0o755|fs.ModeSetuid), os.Chmod(filepath.Join(root, "secret"), 0o600), os.Chmod(filepath.Join(root, "hidden"), 0o700),
		os.Chown(root, uid, uid), os.Chown(dir, uid, uid), os.Chmod(dir, 0o755), os.Chown(filepath.Join(root, "own"), uid, uid),
	)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe") // whose own path others may not reach
	cmd.Env = append(os.Environ(), strangerVariable+"="+dir)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
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
	if diff := cmp.Diff(strings.SplitAfter(want, "\n"), strings.SplitAfter(string(out), "\n")); diff != "" {
		t.Error(diff)
	}
	for name, mode := range map[string]fs.FileMode{"theirs": 0o644, "tool": 0o755} {
		if info, err := os.Lstat(filepath.Join(root, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
