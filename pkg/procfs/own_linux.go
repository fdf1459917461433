package procfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// OwnDir reports whether the directory that is open as dir is that of this process, or of
// one of its threads. It recognizes it in every mount of the file system, also in one
// where this process has another id.
func OwnDir(dir int) (bool, error) {
	text, err := readAt(dir, "status")
	switch {
	case isRefused(err) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ESRCH):
		return false, nil // another process, or no process
	case err != nil:
		return false, err
	case innerPID(text) != os.Getpid():
		return false, nil
	}
	return sharesNamespace(dir)
}

// innerPID returns the id of a process in its own namespace, from its status. Only a
// kernel without namespaces leaves out the line with all its ids.
func innerPID(status []byte) int {
	for _, name := range []string{"\nNStgid:\t", "\nTgid:\t"} {
		_, rest, ok := bytes.Cut(status, []byte(name))
		if !ok {
			continue
		}
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		ids := bytes.Fields(line)
		if len(ids) == 0 {
			return 0
		}
		pid, _ := strconv.Atoi(string(ids[len(ids)-1]))
		return pid
	}
	return 0
}

// sharesNamespace reports whether a process has the same namespace of ids as this one. The
// kernel always lets a process look at itself.
func sharesNamespace(dir int) (bool, error) {
	own, known := ownNamespace()
	if !known {
		return true, nil
	}
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstatat(dir, "ns/pid", &st, 0) })
	if isRefused(err) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return st.Dev == own.Dev && st.Ino == own.Ino, err
}

// ownNamespace returns the namespace of ids that this process is in, and false if the
// kernel does not tell.
var ownNamespace = sync.OnceValues(func() (unix.Stat_t, bool) {
	var st unix.Stat_t
	err := unix.Stat(root+"/self/ns/pid", &st)
	return st, err == nil
})

func isRefused(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// readAt returns the beginning of a file in a directory.
func readAt(dir int, name string) ([]byte, error) {
	fd, err := retry(func() (int, error) { return unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, maxRead)
	n, err := retry(func() (int, error) { return unix.Pread(fd, buf, 0) })
	return buf[:max(n, 0)], err
}

// Umask returns the umask of this process, and false if the kernel does not tell it
// (before Linux 4.7).
func Umask() (mask fs.FileMode, ok bool) {
	err := new(FS).read(root+"/self/status", func(text []byte) error {
		mask, ok = parseUmask(text)
		return nil
	})
	return mask, ok && err == nil
}

func parseUmask(status []byte) (fs.FileMode, bool) {
	_, rest, _ := bytes.Cut(status, []byte("\nUmask:\t"))
	digits, _, ok := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(digits), 8, 32)
	return fs.FileMode(mask).Perm(), ok && err == nil
}

// DescriptorPath returns the path of the link that says what a descriptor of this process
// leads to.
func DescriptorPath(fd int) string { return root + "/self/fd/" + strconv.Itoa(fd) }
