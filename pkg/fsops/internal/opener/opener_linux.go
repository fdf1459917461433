package opener

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Open opens a file for reading, or with O_PATH, and describes it. An error does not name
// the caller's path.
func Open(path string, flags int) (*os.File, fs.FileInfo, error) {
	return openAs(unix.AT_FDCWD, path, flags, false)
}

// openAs is Open in a directory. With self it allows the directory of this process itself,
// but nothing in it.
func openAs(dir int, path string, flags int, self bool) (*os.File, fs.FileInfo, error) {
	fd, err := resolve(dir, path, flags)
	if err != nil {
		return nil, nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	info, err := file.Stat()
	if err == nil {
		err = mayRead(fd, info.Sys().(*unixStat), self)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// OpenAt is Open for a path that starts in an open directory, or AT_FDCWD. It returns a
// descriptor, since an [os.File] costs more than reading a small file.
func OpenAt(dir int, path string, flags int) (int, error) {
	fd, err := resolve(dir, path, flags)
	if err != nil {
		return -1, err
	}
	if err := MayRead(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// OpenIn is Open for a name in a directory that was opened before and now has the path
// dir, which may be one of this process's descriptors.
func OpenIn(dir, name string, flags int) (*os.File, error) {
	in, err := open(unix.AT_FDCWD, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(in)
	file, _, err := openAs(in, name, flags, false)
	return file, err
}

// Hold opens a file with O_PATH, to change it or what is in it.
func Hold(path string, flags int) (*os.File, error) {
	fd, err := resolve(unix.AT_FDCWD, path, flags|unix.O_PATH)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), path)
	if err := MayChange(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// Stat describes a file, following symbolic links.
func Stat(path string) (fs.FileInfo, error) {
	file, info, err := openAs(unix.AT_FDCWD, path, unix.O_PATH, true)
	if err == nil {
		file.Close()
	}
	return info, err
}

// Lstat describes a file, and says what a symbolic link names.
func Lstat(path string) (info fs.FileInfo, target string, err error) {
	file, info, err := openAs(unix.AT_FDCWD, path, unix.O_PATH|unix.O_NOFOLLOW, true)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	if info.Mode().Type() == fs.ModeSymlink {
		target, err = readlink(int(file.Fd()))
	}
	return info, target, err
}

// Readlink returns what a symbolic link names.
func Readlink(path string) (string, error) {
	info, target, err := Lstat(path)
	if err == nil && info.Mode().Type() != fs.ModeSymlink {
		err = unix.EINVAL
	}
	return target, err
}

// resolve opens what a path leads to, without magic links.
func resolve(dir int, path string, flags int) (int, error) {
	if !hasOpenat2() {
		return lookup(dir, path, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(dir, path, &how)
	if err == unix.ELOOP {
		err = explainLoop(dir, path, flags)
	}
	return fd, err
}

// explainLoop tells a magic link from symbolic links that never end, and from one that is
// not to be followed: the kernel reports all with the same error.
func explainLoop(dir int, path string, flags int) error {
	follow := 0
	if flags&unix.O_NOFOLLOW != 0 {
		follow = unix.AT_SYMLINK_NOFOLLOW
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, path, &st, follow)
	last := err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK && flags&unix.O_PATH == 0
	if err == unix.ELOOP || last {
		return unix.ELOOP
	}
	return errMagic
}

// hasOpenat2 reports whether there is the system call openat2. Older kernels, some others
// than Linux and some filters lack it.
var hasOpenat2 = sync.OnceValue(func() bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := openat2(unix.AT_FDCWD, string(filepath.Separator), &how)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
})

// openat2 tries again after a signal, which interrupts it on a network file system, and
// after a rename that got in its way.
func openat2(dir int, path string, how *unix.OpenHow) (int, error) {
	for tries := 0; ; {
		fd, err := unix.Openat2(dir, path, how)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN && tries < maxTries:
			tries++
		default:
			return fd, err
		}
	}
}

func open(dir int, path string, flags int) (int, error) {
	for {
		if fd, err := unix.Openat(dir, path, flags|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

// readlink returns what the link that is open names.
func readlink(fd int) (string, error) { return readlinkat(fd, "") }

func readlinkat(dir int, path string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, path, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
