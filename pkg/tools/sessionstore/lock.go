package sessionstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/podagent/podagent/pkg/fsops"
)

// lockFile is in the directory of the snapshots. It is never removed, since
// waiting hosts have it open.
const lockFile = ".lock"

// lock keeps other hosts from changing snapshots until unlock is called. It creates
// the directory if needed. It stops waiting when ctx ends.
func (d *Disk) lock(ctx context.Context) (unlock func(), err error) {
	if err := d.makeDir(); err != nil {
		return nil, err
	}
	type result struct {
		file *lockedfile.File
		err  error
	}
	taken := make(chan result)
	go func() {
		var r result
		r.file, r.err = lockedfile.OpenFile(filepath.Join(d.Dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		select {
		case taken <- r:
		case <-ctx.Done():
			if r.err == nil {
				r.file.Close()
			}
		}
	}()
	select {
	case r := <-taken:
		return func() { r.file.Close() }, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the lock %s: %w", filepath.Join(d.Dir, lockFile), ctx.Err())
	}
}

// makeDir creates the directory and syncs it to the disk. If it exists, makeDir
// checks that others cannot change its content.
func (d *Disk) makeDir() error {
	info, err := os.Stat(d.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mkdir(d.Dir)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", d.Dir)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0: // Windows has no such modes
		return fmt.Errorf("the directory %s has mode %v, so others could change the snapshots: use a directory with mode 0700", d.Dir, info.Mode().Perm())
	}
	return nil
}

// mkdir creates a directory and its parents, synced to the disk.
func mkdir(dir string) error {
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := mkdir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsops.SyncDir(parent)
}
