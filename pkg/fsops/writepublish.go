package fsops

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// keptMode are the bits of a mode that a replaced file keeps.
const keptMode = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// publish gives the destination its new content: the spool becomes a new file, or
// replaces the existing one. If it can do neither, publish overwrites the existing file.
func (w *Writer) publish() (WriteResult, error) {
	var err error
	for range publishAttempts {
		var info fs.FileInfo
		if info, err = stateOf(w.at.path); err != nil {
			return WriteResult{}, err
		}
		if err = w.opts.checkPreconditions(w.at.path, info); err != nil {
			return WriteResult{}, err
		}
		var res WriteResult
		if res, err = w.publishOnce(info); err == nil || !errors.Is(err, fs.ErrExist) {
			return res, err
		}
		// Another process has made it meanwhile.
	}
	return WriteResult{}, err
}

// publishOnce is publish for a destination that info describes. It fails with
// fs.ErrExist if another process has made the file.
func (w *Writer) publishOnce(info fs.FileInfo) (WriteResult, error) {
	if !w.spool.beside {
		return w.overwrite(info, w.spool.refused)
	}
	dir, err := w.dirToSync()
	if err != nil {
		return WriteResult{}, err
	}
	defer dir.close()
	err = w.replace(info)
	switch {
	case err == nil:
		return w.replaced(info == nil, dir)
	case needsInPlace(err):
		return w.overwrite(info, err)
	}
	return WriteResult{}, err
}

// replace makes the spool the destination, atomically.
func (w *Writer) replace(info fs.FileInfo) error {
	if err := w.applyMetadata(info); err != nil {
		return err
	}
	if w.opts.Sync {
		if err := w.spool.sync(); err != nil {
			return err
		}
	}
	return w.at.change(0, func() error {
		if info == nil {
			return w.spool.linkAs(w.at.path)
		}
		if info.Size() >= flushStep {
			defer retain(w.at.path)()
		}
		return w.spool.renameTo(w.at.path)
	})
}

// replaced concludes a replacement. The spool is the destination by now.
func (w *Writer) replaced(created bool, dir syncedDir) (WriteResult, error) {
	if err := dir.sync(); err != nil {
		return WriteResult{}, err
	}
	info, err := w.spool.stat(w.at.path)
	if err != nil {
		return WriteResult{}, err
	}
	if err := w.spool.close(); err != nil {
		return WriteResult{}, err
	}
	return WriteResult{Attr: attrOf(w.name, info), Created: created}, nil
}

// dirToSync opens the destination's directory if it is to be synced. It runs before
// anything changes, since the directory might not be readable.
func (w *Writer) dirToSync() (syncedDir, error) {
	if !w.opts.Sync {
		return syncedDir{}, nil
	}
	// Not openDir, since the path may be that of a descriptor.
	dir, err := os.OpenFile(filepath.Dir(w.at.path), os.O_RDONLY|openDirectory, 0)
	return syncedDir{dir}, err
}

// syncedDir is an open directory whose names are to reach the disk. The zero value
// is for writes that do not ask for it.
type syncedDir struct{ dir *os.File }

func (d syncedDir) sync() error {
	if d.dir == nil {
		return nil
	}
	return syncDir(d.dir)
}

func (d syncedDir) close() {
	if d.dir != nil {
		d.dir.Close()
	}
}

// applyMetadata gives the spool the owner, mode and time of the destination, which
// info describes.
func (w *Writer) applyMetadata(info fs.FileInfo) error {
	if w.spool.closed {
		return nil // done when the first attempt was made
	}
	own, err := w.spool.file.Stat()
	if err != nil {
		return err
	}
	if info != nil {
		if err := keepOwner(w.spool.file, own, info); err != nil {
			return err
		}
	}
	if mode, ok := w.mode(info); ok {
		// This comes after the owner, since a change of owner clears the set-id bits.
		if err := w.spool.file.Chmod(mode); err != nil {
			return err
		}
	}
	if w.stamp == nil {
		return nil
	}
	return os.Chtimes(descriptorPath(w.spool.file), time.Time{}, w.stamp.modTime)
}

// mode returns the mode that the destination gets, and false if the spool was made
// with it.
func (w *Writer) mode(info fs.FileInfo) (fs.FileMode, bool) {
	switch {
	case w.stamp != nil:
		return w.stamp.mode, true
	case info != nil:
		return info.Mode() & keptMode, true
	case w.former != nil: // removed meanwhile: without its owner, no set-id bits
		return w.former.Mode().Perm(), true
	}
	return 0, false
}

// keepOwner gives the file the owner in want. own describes the file as it is.
func keepOwner(file *os.File, own, want fs.FileInfo) error {
	uid, gid := owner(own)
	wantUID, wantGID := owner(want)
	if uid == wantUID && gid == wantGID {
		return nil
	}
	err := file.Chown(int(wantUID), int(wantGID))
	if isAny(err, syscall.EINVAL) {
		return syscall.EPERM // an owner that this user namespace does not know
	}
	return err
}
