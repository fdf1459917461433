package checkpoint

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stage makes a file under a name of its own. The path is the one that it gets.
func (r *restorer) stage(parent int, path string, e *entry) (name string, err error) {
	name = r.staged()
	switch e.kind {
	case regular:
		err = r.stageFile(parent, path, name, e)
	case symlink:
		if err = unix.Symlinkat(e.target, parent, name); err == nil {
			err = r.describeNew(parent, path, name, e)
		}
	case fifo:
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
func (r *restorer) stageFile(parent int, path, name string, e *entry) error {
	fd, err := unix.Openat(parent, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if e.flags&holes == 0 {
		err = r.s.objects.fill(file, e.hash)
	} else {
		err = r.fillSparse(file, e)
	}
	if err == nil {
		err = r.describe(fd, path, e)
	}
	if err != nil {
		return err
	}
	return r.syncFile(file)
}

// fillSparse writes a file with holes.
func (r *restorer) fillSparse(file *os.File, e *entry) error {
	if err := file.Truncate(e.size); err != nil {
		return err
	}
	to := newSparseReader(file, e.size)
	if err := r.s.objects.writeTo(to, e.hash); err != nil {
		return err
	}
	return to.whole()
}

// describeNew is describe for a link or FIFO that was just made.
func (r *restorer) describeNew(parent int, path, name string, e *entry) error {
	fd, err := openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kindOf(st.Mode) != e.kind || st.Nlink != 1 {
		return errMoved
	}
	return r.describe(fd, path, e)
}

// describePresent gives a file that is there the mode, owner and time of an entry. A file with several names, which may
// be anywhere, becomes one of its own.
func (r *restorer) describePresent(parent int, path, name string, ea, eb *entry) error {
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
	if kindOf(st.Mode) != ea.kind || ea.kind == regular && !r.isFound(&st, ea) {
		return errMoved
	}
	r.changed++
	return r.describe(fd, path, eb)
}

// isFound reports whether a file is the one that the scan has found for an entry.
func (r *restorer) isFound(st *unix.Stat_t, e *entry) bool {
	rec := r.present.index.find(inodeID{st.Dev, st.Ino})
	return rec != nil && rec.hash == e.hash && rec.bytes == st.Size && rec.mtime == st.Mtim.Nano()
}

// kindOf returns the kind of a file, 0 if checkpoints have none like it.
func kindOf(mode uint32) kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return regular
	case unix.S_IFDIR:
		return directory
	case unix.S_IFLNK:
		return symlink
	case unix.S_IFIFO:
		return fifo
	}
	return 0
}

// describe gives what a descriptor names the mode, owner and time of an entry.
func (r *restorer) describe(fd int, path string, e *entry) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	mode := e.mode
	if st.Uid != e.uid || st.Gid != e.gid {
		// Only root may, and to groups of one's own. Who runs it as its owner must not be another one then.
		if err := unix.Fchownat(fd, "", int(e.uid), int(e.gid), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW); err != nil {
			r.note(path, fmt.Sprintf("it cannot belong to %d:%d: %v", e.uid, e.gid, err))
			mode &^= unix.S_ISUID | unix.S_ISGID
		}
	}
	if e.kind != symlink {
		if err := chmod(fd, mode); err != nil {
			return err
		}
	}
	if err := setTime(fd, e.mtime); err != nil {
		return err
	}
	// It may have other names, for which it is still what the scan found.
	if rec := r.present.index.find(inodeID{st.Dev, st.Ino}); rec != nil && rec.mtime == st.Mtim.Nano() {
		rec.mtime = e.mtime
	}
	return nil
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
