package checkpoint

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// stage makes a file under a name of its own.
func (r *restorer) stage(parent int, e *entry) (name string, err error) {
	name = r.staged()
	switch e.kind {
	case regular:
		err = r.stageFile(parent, name, e)
	case symlink:
		err = unix.Symlinkat(e.target, parent, name)
	case fifo:
		err = unix.Mknodat(parent, name, unix.S_IFIFO|0o600, 0)
	}
	if err == nil {
		err = r.describe(parent, name, e)
	}
	if err != nil {
		_ = unix.Unlinkat(parent, name, 0)
	}
	return name, err
}

// stageFile makes a file with the content that an object has.
func (r *restorer) stageFile(parent int, name string, e *entry) error {
	fd, err := unix.Openat(parent, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if e.flags&holes == 0 {
		return r.s.objects.fill(file, e.hash)
	}
	if err := file.Truncate(e.size); err != nil {
		return err
	}
	to := newSparseReader(file, e.size)
	if err := r.s.objects.writeTo(to, e.hash); err != nil {
		return err
	}
	return to.whole()
}

// describe gives a file the mode, owner and time of an entry.
func (r *restorer) describe(parent int, name string, e *entry) error {
	fd, err := openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != e.uid || st.Gid != e.gid {
		// Only root may, and to groups of one's own.
		_ = unix.Fchownat(fd, "", int(e.uid), int(e.gid), unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
	}
	if e.kind != symlink {
		if err := chmod(fd, e.mode); err != nil {
			return err
		}
	}
	if err := setTime(fd, e.mtime); err != nil {
		return err
	}
	// It may have other names, for which it is still what the scan found.
	if rec, ok := r.index[st.Ino]; ok && rec.mtime == st.Mtim.Nano() {
		rec.mtime = e.mtime
		r.index[st.Ino] = rec
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
		err = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode)
	}
	return err
}
