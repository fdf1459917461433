package fsops

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// openRegular opens the regular file at path for reading, without ever waiting for a
// FIFO or device. It checks the type before it opens, since opening a device may already
// have an effect, and again on the open file.
func openRegular(path string) (regularFile, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return regularFile{}, nil, err
	}
	if err := mustBeRegular(info); err != nil {
		return regularFile{}, nil, err
	}
	file, info, err := opener.Open(path, os.O_RDONLY|openNonblock)
	if err != nil {
		return regularFile{}, nil, err
	}
	if err := mustBeRegular(info); err != nil {
		file.Close()
		return regularFile{}, nil, err
	}
	return regularFile{file}, info, nil
}

func mustBeRegular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}

// A regularFile is open for reading. It never waits: the few files under /proc and the
// like that say they are regular, but are streams, such as kmsg, fail with errWouldWait
// after what there is.
type regularFile struct{ file *os.File }

// errWouldWait says that the file is a stream after all.
var errWouldWait = fmt.Errorf("%w: reading on would wait for data", ErrNotRegular)

// Read is as in [io.Reader].
func (f regularFile) Read(p []byte) (int, error) {
	n, err := readNow(f.file, p)
	if errors.Is(err, syscall.EAGAIN) {
		err = errWouldWait
	}
	return n, err
}

// Seek is as in [io.Seeker].
func (f regularFile) Seek(offset int64, whence int) (int64, error) {
	return f.file.Seek(offset, whence)
}

// Stat returns the attributes of the open file.
func (f regularFile) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// Close closes the file.
func (f regularFile) Close() error { return f.file.Close() }
