package launcher

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
)

// removeTree removes a tree of any depth, even with read-only directories in it,
// such as those of Go's module cache. A process of the sandbox may still change it meanwhile.
func removeTree(ctx context.Context, dir string) error {
	files := fsops.New(filepath.Dir(dir))
	opts := fsops.RemoveOptions{Recursive: true, Force: true}
	err := files.Remove(ctx, filepath.Base(dir), opts)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return errors.Join(unlockTree(dir), files.Remove(ctx, filepath.Base(dir), opts))
}

// unlockTree lets the owner change all directories of a tree. It follows no symbolic link out of the tree,
// also if one takes a directory's place meanwhile.
func unlockTree(dir string) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	if err := parent.Chmod(filepath.Base(dir), 0o700); err != nil {
		return err
	}
	root, err := parent.OpenRoot(filepath.Base(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return root.Chmod(path, 0o700)
		}
		return nil // what cannot be looked at shows when it is removed
	})
}
