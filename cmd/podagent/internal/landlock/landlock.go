// Package landlock restricts threads by Landlock (https://docs.kernel.org/userspace-api/landlock.html).
// Libraries for it restrict all threads of a program at once, or the program by its end; podagent
// restricts single ones.
//
// The package is for Linux.
package landlock

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ruleset is what a thread, and what it starts, can do. They can do everything that no field is about.
type Ruleset struct {
	// Scopes are the LANDLOCK_SCOPE_ flags: whom they cannot reach outside.
	Scopes uint64
	// Connects says that TCP can connect to Ports alone.
	Connects bool
	Ports    []uint16
	// Files, unless it is nil, are the only files that they can use.
	Files []File
}

// File is a file, or a directory with all that is below it.
type File struct {
	// Path must have no symbolic link in it: another sandbox may have put it there.
	Path   string
	Access Access
	// Open, if not nil, is the file, which needs no path.
	Open *os.File
}

// Access is what can be done with files.
type Access int

// The accesses.
const (
	// Readable files can be read and executed.
	Readable Access = iota
	// Writable ones can be changed, too, and made and removed, but not as devices.
	Writable
	// Device is for what stands for a device: it can be read, written and controlled.
	Device
	// Listable directories show the names in them, and no more.
	Listable
)

const (
	reads  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	nodes  = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	writes = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	controls = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// ofFile is what can be done with something that is no directory.
	ofFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

func (a Access) rights() uint64 {
	switch a {
	case Writable:
		return reads | writes | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	case Device:
		return controls
	case Listable:
		return unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	return reads
}

// FilesVersion is the first version that keeps files from everything that changes their content.
const FilesVersion = 3

// SocketsVersion is the first version that judges which unix sockets are connected to by their paths.
const SocketsVersion = 9

// Version returns the version of the kernel's Landlock.
func Version() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	return int(version), nil
}

// fileRights are those that the kernel's version judges.
func fileRights(version int) uint64 {
	rights := uint64(reads | nodes | writes)
	if version >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= SocketsVersion {
		rights |= unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
	}
	return rights
}

// Restrict puts the calling thread within the ruleset, for good. It must have no_new_privs.
func (r *Ruleset) Restrict() error {
	attr := unix.LandlockRulesetAttr{Scoped: r.Scopes}
	if r.Connects {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if r.Files != nil {
		version, err := Version()
		if err != nil {
			return err
		}
		if version < FilesVersion {
			return fmt.Errorf("the kernel has version %d of Landlock, which judges all changes of files from %d on", version, FilesVersion)
		}
		attr.Handled_access_fs = fileRights(version)
	}
	// Kernels refuse a structure with fields that they do not know, unless they are zero.
	set, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(set))
	for _, port := range r.Ports {
		rule := struct{ access, port uint64 }{unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, uint64(port)}
		if err := add(set, rulePort, unsafe.Pointer(&rule)); err != nil {
			return fmt.Errorf("port %d: %w", port, err)
		}
	}
	for _, f := range r.Files {
		if err := f.add(set, attr.Handled_access_fs); err != nil {
			return err
		}
	}
	_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, set, 0, 0)
	return syscallError("landlock_restrict_self", errno)
}

// The kinds of rules, as in landlock_add_rule(2).
const (
	rulePath = 1
	rulePort = 2
)

func add(set, kind uintptr, rule unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, set, kind, uintptr(rule), 0, 0, 0)
	return syscallError("landlock_add_rule", errno)
}

// add lets a file be used, as far as its access and the rights that the kernel judges say.
func (f File) add(set uintptr, judged uint64) error {
	fd, err := f.open()
	if err != nil {
		return &os.PathError{Op: "open", Path: f.Path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return &os.PathError{Op: "stat", Path: f.Path, Err: err}
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: f.Access.rights() & judged, Parent_fd: int32(fd)}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		rule.Allowed_access &= ofFile
	}
	if err := add(set, rulePath, unsafe.Pointer(&rule)); err != nil {
		return &os.PathError{Op: "landlock", Path: f.Path, Err: err}
	}
	return nil
}

func (f File) open() (int, error) {
	if f.Open != nil {
		return unix.FcntlInt(f.Open.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	}
	return OpenPath(f.Path)
}

// OpenPath opens a path without symbolic links, for its name alone.
func OpenPath(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

func syscallError(name string, errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return os.NewSyscallError(name, errno)
}
