//go:build !linux

package fsops

import (
	"context"
	"os"
	"path/filepath"
)

// removeTree removes the directory at, which the caller knows as
// name, with all that is in it.
func removeTree(ctx context.Context, at *guardedPath, name string) error {
	path := at.path
	names, err := readNames(ctx, path)
	if err != nil {
		return pathError("remove", name, err)
	}
	for _, base := range names {
		if err := ctx.Err(); err != nil {
			return pathError("remove", name, err)
		}
		if err := os.RemoveAll(filepath.Join(path, base)); err != nil {
			return pathError("remove", filepath.Join(name, base), err)
		}
	}
	return pathError("remove", name, os.Remove(path))
}
