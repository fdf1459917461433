package walk

import (
	"io"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// A File is a regular file that is open for reading. On Linux it is only the
// descriptor: an os.File costs more than reading a small file.
type File struct {
	fd   int
	size int64
}

func (h handle) openFile(name string, follow bool) (File, error) {
	const flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	var fd int
	var err error
	if follow {
		fd, err = opener.OpenAt(int(h), name, flags)
	} else {
		fd, err = openat(int(h), name, flags|unix.O_NOFOLLOW)
	}
	if err != nil {
		return File{}, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNotRegular
	}
	if err != nil {
		_ = unix.Close(fd)
		return File{}, err
	}
	return File{fd: fd, size: st.Size}, nil
}

// Size returns the size that the file had when it was opened, in bytes.
func (f File) Size() int64 { return f.size }

// Read is as in [io.Reader].
func (f File) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Close closes the file.
func (f File) Close() error { return unix.Close(f.fd) }
