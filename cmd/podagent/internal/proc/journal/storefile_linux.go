package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/eintr"
)

// openUnlinked opens a new file in dir that has no name, so that it vanishes with the
// agent in any case.
func openUnlinked(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	f, err = os.CreateTemp(dir, ".podagent-journal-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// fileSystemSize is the size in bytes of the file system that f is on. A file system in
// memory is an error, because its files take the sandbox's memory.
func fileSystemSize(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("fstatfs", err)
	}
	if st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
		return 0, errors.New("its file system is in memory")
	}
	return int64(st.Blocks) * st.Bsize, nil
}

// canPunch reports whether parts of f can be given back to its file system.
func canPunch(f *os.File) bool { return punch(f, 0, slotMin) == nil }

// punch gives the room of n bytes at off back to the file system.
func punch(f *os.File, off int64, n int) error {
	return os.NewSyscallError("fallocate", eintr.Repeat(func() error {
		return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, int64(n))
	}))
}

// probe writes and reads a byte, to notice at once that a directory can't be used.
func probe(f *os.File) error {
	if _, err := f.WriteAt([]byte{1}, 0); err != nil {
		return err
	}
	if err := readFull(f, make([]byte, 1), 0); err != nil {
		return err
	}
	return f.Truncate(0)
}

// readFull reads all of b. A shorter file is an error.
func readFull(f io.ReaderAt, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	return fmt.Errorf("cannot read %d bytes at %d: %w", len(b), off, err)
}
