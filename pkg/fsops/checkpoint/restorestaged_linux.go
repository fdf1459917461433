package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/holes"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// stage makes a file under a name of its own. The path is the one that it gets.
func (r *restorer) stage(parent int, path string, e *tree.Entry) (name string, err error) {
	name = r.exclude.newName()
	switch e.Kind {
	case tree.Regular:
		err = r.stageFile(parent, path, name, e)
	case tree.Symlink:
		if err = unix.Symlinkat(e.Target, parent, name); err == nil {
			err = r.describeNew(parent, path, name, e)
		}
	case tree.FIFO:
		if err = unix.Mknodat(parent, name, unix.S_IFIFO|0o600, 0); err == nil {
			err = r.describeNew(parent, path, name, e)
		}
	}
	if err != nil {
		_ = unix.Unlinkat(parent, name, 0)
	}
	return name, err
}

// stageFile makes a file with the content that an object has.
func (r *restorer) stageFile(parent int, path, name string, e *tree.Entry) error {
	fd, err := unix.Openat(parent, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, e.Mode&0o777)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if e.Flags&tree.Holes == 0 {
		err = r.s.objects.Fill(file, e.Hash)
	} else {
		err = r.fillSparse(file, e)
	}
	if err == nil {
		err = r.setAttributes(fd, path, e)
	}
	if err != nil {
		return err
	}
	return r.syncFile(file)
}

// fillSparse writes a file with holes.
func (r *restorer) fillSparse(file *os.File, e *tree.Entry) error {
	if err := file.Truncate(e.Size); err != nil {
		return err
	}
	to := holes.NewDecoder(file, e.Size)
	if err := r.s.objects.WriteTo(to, e.Hash); err != nil {
		return err
	}
	return to.Whole()
}

// describeNew is setAttributes for a link or FIFO that was just made.
func (r *restorer) describeNew(parent int, path, name string, e *tree.Entry) error {
	fd, err := openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kindOf(st.Mode) != e.Kind || st.Nlink != 1 {
		return errMoved
	}
	return r.setAttributes(fd, path, e)
}

// describePresent gives a file that is there the mode, owner and time of an entry. A file with several names, which may
// be anywhere, becomes one of its own.
func (r *restorer) describePresent(parent int, path, name string, ea, eb *tree.Entry) error {
	fd, err := openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Nlink > 1 {
		return r.replace(parent, path, name, ea, eb)
	}
	if kindOf(st.Mode) != ea.Kind || ea.Kind == tree.Regular && !r.isFound(&st, ea) {
		return errMoved
	}
	r.changed++
	return r.describe(fd, path, eb)
}

// isFound reports whether a file is the one that the scan has found for an entry.
func (r *restorer) isFound(st *unix.Stat_t, e *tree.Entry) bool {
	rec := r.present.index.find(inodeID{st.Dev, st.Ino})
	return rec != nil && rec.hash == e.Hash && rec.bytes == st.Size && rec.mtime == st.Mtim.Nano()
}

// kindOf returns the kind of a file, 0 if checkpoints have none like it.
func kindOf(mode uint32) tree.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return tree.Regular
	case unix.S_IFDIR:
		return tree.Directory
	case unix.S_IFLNK:
		return tree.Symlink
	case unix.S_IFIFO:
		return tree.FIFO
	}
	return 0
}

// describe is setAttributes for what may be the file that the scan has found.
func (r *restorer) describe(fd int, path string, e *tree.Entry) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil {
		err = r.setAttributes(fd, path, e)
	}
	if err != nil {
		return err
	}
	// It may have other names, for which it is still what the scan found.
	if rec := r.present.index.find(inodeID{st.Dev, st.Ino}); rec != nil && rec.mtime == st.Mtim.Nano() {
		rec.mtime = e.MTime
	}
	return nil
}

// setAttributes gives what a descriptor names the mode, owner and time of an entry. It may be called concurrently.
func (r *restorer) setAttributes(fd int, path string, e *tree.Entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	mode, isOthers := e.Mode, st.Uid != e.UID || st.Gid != e.GID
	if isOthers {
		// Only root may, and to groups of one's own. Who runs it as its owner must not be another one then.
		if err := unix.Fchownat(fd, "", int(e.UID), int(e.GID), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			r.note(path, fmt.Sprintf("it cannot belong to %d:%d: %v", e.UID, e.GID, err))
			mode &^= unix.S_ISUID | unix.S_ISGID
		}
	}
	if e.Kind != tree.Symlink && (isOthers || st.Mode&tree.ModeBits != mode) {
		if err := chmod(fd, mode); err != nil {
			return err
		}
	}
	return setTime(fd, e.MTime)
}

// setTime sets the modification time of what a descriptor names.
func setTime(fd int, mtime int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	return unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
}

// chmod changes the mode of what an O_PATH descriptor names.
func chmod(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) { // before Linux 6.6
		err = unix.Chmod(pathOf(fd), mode)
	}
	return err
}
