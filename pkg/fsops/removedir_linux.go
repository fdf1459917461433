package fsops

import (
	"os"

	"golang.org/x/sys/unix"
)

// A removeDir is a directory of a tree that is being removed. Of the directories
// that lead to the present one, only the innermost are open: the tree may be deeper
// than the limit of descriptors.
type removeDir struct {
	file *os.File // nil while the directory is closed
	real string   // its path, if something is protected
	// state identifies the directory while it is closed.
	state unix.Stat_t
}

// fd returns the descriptor. For the directory above the tree it is AT_FDCWD, since
// the tree's own path is absolute.
func (d *removeDir) fd() int {
	if d == nil {
		return unix.AT_FDCWD
	}
	return int(d.file.Fd())
}

// enter goes into the directory open as file.
func (r *treeRemover) enter(file *os.File, real string) *removeDir {
	r.stack = append(r.stack, &removeDir{file: file, real: real})
	if outer := len(r.stack) - 1 - maxRemoveOpen; outer >= 0 {
		r.stack[outer].suspend()
	}
	return r.stack[len(r.stack)-1]
}

// leave goes back from dir, which it closes, to its parent.
func (r *treeRemover) leave(dir, parent *removeDir) error {
	r.stack = r.stack[:len(r.stack)-1]
	if dir.file == nil {
		return nil // the reason is known
	}
	defer dir.file.Close()
	if parent == nil || parent.file != nil {
		return nil
	}
	return parent.resume(dir)
}

// suspend closes the directory until resume.
func (d *removeDir) suspend() {
	if unix.Fstat(d.fd(), &d.state) == nil {
		d.file.Close()
		d.file = nil
	}
}

// resume opens the directory again, as the parent of child. Another process may
// have moved child elsewhere, where nothing is to be removed.
func (d *removeDir) resume(child *removeDir) error {
	file, err := openDirAt(child.fd(), "..", child.file.Name()+"/..")
	if err != nil {
		return err
	}
	var state unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &state); err != nil || state.Dev != d.state.Dev || state.Ino != d.state.Ino {
		file.Close()
		return unix.ESTALE
	}
	d.file = file
	return nil
}
