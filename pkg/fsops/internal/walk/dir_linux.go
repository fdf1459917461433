package walk

import (
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// A handle is an open directory: its descriptor.
type handle int

// noHandle is no open directory.
const noHandle handle = -1

// fileID tells a directory from all others.
type fileID struct{ dev, ino uint64 }

const (
	// openDirectory makes open(2) fail with ENOTDIR for all but directories.
	openDirectory = unix.O_DIRECTORY
	dirFlags      = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
)

// openRoot opens the directory at path.
func openRoot(path string) (handle, error) {
	fd, err := opener.OpenAt(unix.AT_FDCWD, path, dirFlags)
	return handle(fd), err
}

// openDir opens the directory called name in h. The root was checked, so only a link may
// lead to files that are not to be read, or a directory of procfs, where that of each
// process is a number.
func (h handle) openDir(name string, follow bool) (handle, error) {
	if follow {
		fd, err := opener.OpenAt(int(h), name, dirFlags)
		return handle(fd), err
	}
	if isNumber(name) {
		fd, err := opener.OpenAt(int(h), name, dirFlags|unix.O_NOFOLLOW)
		return handle(fd), err
	}
	fd, err := openat(int(h), name, dirFlags|unix.O_NOFOLLOW)
	return handle(fd), err
}

func isNumber(name string) bool {
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return false
		}
	}
	return true
}

// openPath opens the directory that has the path below h, of any length.
func (h handle) openPath(path string, follow bool) (handle, error) {
	at := h
	for len(path) > maxPath {
		cut := strings.LastIndexByte(path[:maxPath], '/')
		fd, err := opener.OpenAt(int(at), path[:cut], unix.O_PATH|unix.O_DIRECTORY)
		if at != h {
			at.close()
		}
		if err != nil {
			return noHandle, err
		}
		at, path = handle(fd), path[cut+1:]
	}
	flags := dirFlags
	if !follow {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := opener.OpenAt(int(at), path, flags)
	if at != h {
		at.close()
	}
	return handle(fd), err
}

// alias returns a short path of the directory, however deep it is.
func (h handle) alias() string { return "/proc/self/fd/" + strconv.Itoa(int(h)) }

func (h handle) close() {
	if h != noHandle {
		_ = unix.Close(int(h))
	}
}

func (h handle) id() (fileID, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstat(int(h), &st) })
	return fileID{st.Dev, st.Ino}, err
}

func (h handle) stat(name string, follow bool) (Attr, error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(int(h), name, &st, flags) })
	if err != nil {
		return Attr{}, err
	}
	return Attr{Type: typeOf(byte(st.Mode & unix.S_IFMT >> 12)), ModTime: time.Unix(st.Mtim.Unix())}, nil
}

// openat opens a file. A signal may interrupt that on a network file system.
func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// A lister reads directories.
type lister struct{ buf []byte }

// The offsets of an entry's fields (getdents(2)).
const (
	direntLength = 16
	direntType   = 18
	direntName   = 19
)

// next appends some entries of h, and returns io.EOF when there are no more.
func (l *lister) next(h handle, batch []dirent) ([]dirent, error) {
	if l.buf == nil {
		l.buf = make([]byte, listBuffer)
	}
	n, err := unix.Getdents(int(h), l.buf)
	for err == unix.EINTR {
		n, err = unix.Getdents(int(h), l.buf)
	}
	if err != nil {
		return batch, err
	}
	if n == 0 {
		return batch, io.EOF
	}
	return parseDirents(l.buf[:n], batch), nil
}

// parseDirents appends what a system call read. The names share one string, made of
// the beginning of buf, to which they are moved: allocating each would take longer
// than all else here.
func parseDirents(buf []byte, batch []dirent) []dirent {
	first, names := len(batch), 0
	for at := 0; at+direntName <= len(buf); {
		length := int(binary.NativeEndian.Uint16(buf[at+direntLength:]))
		typ, name := buf[at+direntType], buf[at+direntName:at+length]
		at += length
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		}
		if string(name) != "." && string(name) != ".." {
			batch = append(batch, dirent{typ: typeOf(typ), length: int32(len(name))})
			names += copy(buf[names:], name)
		}
	}
	text := string(buf[:names])
	for i := first; i < len(batch); i++ {
		n := batch[i].length
		batch[i].name, text = text[:n], text[n:]
	}
	return batch
}

// typeOf translates the type of a directory's entry (d_type in readdir(3)), which is
// coded as in a mode.
func typeOf(typ byte) fs.FileMode {
	switch typ {
	case unix.DT_REG:
		return 0
	case unix.DT_DIR:
		return fs.ModeDir
	case unix.DT_LNK:
		return fs.ModeSymlink
	case unix.DT_FIFO:
		return fs.ModeNamedPipe
	case unix.DT_SOCK:
		return fs.ModeSocket
	case unix.DT_BLK:
		return fs.ModeDevice
	case unix.DT_CHR:
		return fs.ModeDevice | fs.ModeCharDevice
	}
	return unknownType
}
