package opener

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// controls are the file systems through which the kernel is controlled, by the type that
// statfs(2) gives. A command that may write there does so with its own rights, and the
// kernel often treats the writer itself: this process would change itself, or do what
// only it may do. None of them holds anybody's data.
var controls = map[uint32]string{
	unix.PROC_SUPER_MAGIC:     "procfs", // processes, and sysctl
	unix.SYSFS_MAGIC:          "sysfs",  // devices and drivers
	unix.CGROUP_SUPER_MAGIC:   "cgroupfs",
	unix.CGROUP2_SUPER_MAGIC:  "cgroupfs",
	unix.DEBUGFS_MAGIC:        "debugfs", // whatever drivers show
	unix.TRACEFS_MAGIC:        "tracefs",
	unix.SECURITYFS_MAGIC:     "securityfs", // policies of security modules
	unix.SELINUX_MAGIC:        "selinuxfs",
	unix.SMACK_MAGIC:          "smackfs",
	unix.BPF_FS_MAGIC:         "bpffs", // programs in the kernel
	unix.BINFMTFS_MAGIC:       "binfmt_misc",
	unix.EFIVARFS_MAGIC:       "efivarfs", // the firmware's variables
	unix.PSTOREFS_MAGIC:       "pstore",
	unix.RDTGROUP_SUPER_MAGIC: "resctrl",
	unix.NSFS_MAGIC:           "nsfs",
	unix.XENFS_SUPER_MAGIC:    "xenfs",
	configfsMagic:             "configfs",
	fusectlMagic:              "fusectl", // cuts off the servers of FUSE
}

// These are missing in package unix (linux/magic.h, and fs/fuse/control.c).
const (
	configfsMagic = 0x62656570
	fusectlMagic  = 0x65735543
)

// shared are the files in the directory of a process that show no more of it than every
// process may see, and that other paths lead to: /proc/net and /proc/mounts.
var shared = []string{"net", "mounts", "mountinfo"}

type unixStat = syscall.Stat_t

// MayRead returns an error if an open file, or directory, is not to be read.
func MayRead(fd int) error {
	var st unixStat
	if err := fstat(fd, &st); err != nil {
		return err
	}
	return mayRead(fd, &st, false)
}

// mayRead is MayRead for a file whose state is known. With self the directory of this
// process itself may be looked at.
func mayRead(fd int, st *unixStat, self bool) error {
	switch control, err := controlOf(fd, st); {
	case err != nil:
		return err
	case control != unix.PROC_SUPER_MAGIC:
		return nil
	}
	in, found, err := ownPart(fd, st)
	switch {
	case err != nil:
		return err
	case !found || self && in == "":
		return nil
	}
	if first, _, _ := strings.Cut(in, "/"); slices.Contains(shared, first) {
		return nil
	}
	return errOwn
}

// MayChange returns an error if an open file, or what is in an open directory, is not to
// be changed.
func MayChange(file *os.File) error {
	var st unixStat
	fd := int(file.Fd())
	if err := fstat(fd, &st); err != nil {
		return err
	}
	control, err := controlOf(fd, &st)
	if err == nil && control != 0 {
		err = controlError(controls[control])
	}
	return err
}

// controlOf returns the type of the file system if it is one of the controls, and 0
// otherwise. Files there have no blocks, and no device. All others are spared statfs,
// which may have to ask a server.
func controlOf(fd int, st *unixStat) (uint32, error) {
	if unix.Major(st.Dev) != 0 || st.Blocks != 0 {
		return 0, nil
	}
	var system unix.Statfs_t
	for {
		err := unix.Fstatfs(fd, &system)
		if err == unix.EINTR {
			continue
		}
		if _, found := controls[uint32(system.Type)]; err != nil || !found {
			return 0, err
		}
		return uint32(system.Type), nil
	}
}

// ownPart returns the path of an open file on procfs below the directory of this process,
// or of one of its threads, and whether it lies there. The kernel knows the path of the
// file. Nothing can be renamed on procfs, so that each directory on that path can be opened
// to ask whose it is.
func ownPart(fd int, st *unixStat) (in string, found bool, err error) {
	path, err := readlinkat(unix.AT_FDCWD, procfs.DescriptorPath(fd))
	if err != nil {
		return "", false, err
	}
	if err := leadsTo(path, st); err != nil {
		return "", false, err
	}
	for dir := path; ; dir = filepath.Dir(dir) {
		inside, own, err := ownDir(dir, st.Dev)
		switch {
		case err != nil:
			return "", false, err
		case own:
			return strings.TrimPrefix(path[len(dir):], "/"), true, nil
		case !inside && dir == filepath.Dir(path) && st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return "", false, errOwn // a mount of a single file: nobody knows whose it is
		case !inside && dir != path || dir == filepath.Dir(dir):
			return "", false, nil
		}
	}
}

// leadsTo returns nil if a path leads to the file with that state. It may not if the
// process that the file belonged to has ended, or the path is hidden by another mount.
func leadsTo(path string, st *unixStat) error {
	var now unixStat
	if err := syscall.Lstat(path, &now); err != nil {
		return err
	}
	if now.Dev != st.Dev || now.Ino != st.Ino {
		return fmt.Errorf("cannot tell whose file it is: %w", unix.EACCES)
	}
	return nil
}

// ownDir reports whether the path leads to a directory of this process, and whether it
// leads to a directory on that device at all.
func ownDir(path string, dev uint64) (inside, own bool, err error) {
	fd, err := open(unix.AT_FDCWD, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return false, false, nil // the file itself
	}
	if err != nil {
		return false, false, err
	}
	defer unix.Close(fd)
	var st unixStat
	if err := fstat(fd, &st); err != nil || st.Dev != dev {
		return false, false, err
	}
	own, err = procfs.OwnDir(fd)
	return true, own, err
}

func fstat(fd int, st *unixStat) error {
	for {
		if err := syscall.Fstat(fd, st); err != unix.EINTR {
			return err
		}
	}
}
