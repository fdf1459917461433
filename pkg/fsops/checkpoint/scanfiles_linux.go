package checkpoint

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/holes"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A job is a file to be read.
type job struct {
	entry  *tree.Entry
	dir    *dirHandle
	name   string
	record int // where its record goes

	found  record // at first what a stat told
	sparse bool
	again  bool // it has been read once
	lost   bool // it is not there any more, or cannot be read
}

const (
	// readTries is how often a file is read that changes meanwhile; large ones less often.
	readTries      = 3
	readTriesLarge = 2
	large          = 64 << 20
	// tick is more than the time in which two changes of a file may get the same time: the
	// kernel's clock for files advances a hundred times a second at least.
	tick = 20 * time.Millisecond
	// coarse is that of file systems whose times have whole seconds.
	coarse = 2 * time.Second
)

// readFiles reads files until there are no more.
func (s *scan) readFiles() {
	c := s.objects.Coder()
	defer s.objects.Release(c)
	for j := range s.jobs {
		if s.stopped() == nil {
			s.readFile(c, j)
		}
		j.dir.release()
		j.dir = nil
	}
}

// readFile reads a file until it has not changed while it was read.
func (s *scan) readFile(c *object.Coder, j *job) {
	for try := 1; ; try++ {
		still, err := s.readOnce(c, j)
		switch {
		case errors.Is(err, unix.ENOENT) && try == 1:
			j.lost = true
			return
		case errors.As(err, new(object.StoreError)):
			s.stop(err)
			return
		case err != nil && !(errors.Is(err, io.ErrUnexpectedEOF) && try < readTries):
			j.lost = true
			s.leave(tree.Join(j.dir.path, j.name), err.Error())
			return
		case still:
			return
		}
		if err == nil && (try >= readTries || try >= readTriesLarge && j.found.bytes > large || s.stopped() != nil) {
			j.found.flags |= racy
			s.moves(tree.Join(j.dir.path, j.name))
			return
		}
	}
}

// readOnce reads a file, and reports whether it has been the one that j.found says all the time. If not, j.found says
// what was read.
func (s *scan) readOnce(c *object.Coder, j *job) (still bool, err error) {
	fd, err := openToRead(j.dir.fd, j.name)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if j.again {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return false, err
		}
		j.found, j.sparse = recordOf(&st)
	}
	j.again = true
	before, started := j.found, time.Now()
	if j.found, err = s.content(c, fd, before, j.sparse); err != nil {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, errors.New("another file took its place")
	}
	if s.mapped[before.inode] || isRacy(before.ctime, started) {
		j.found.flags |= racy
	}
	after, _ := recordOf(&st)
	return after == before, nil
}

// openToRead opens a file without a trace, if it may.
func openToRead(dir int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := openat(dir, name, flags|unix.O_NOATIME)
	if errors.Is(err, unix.EPERM) { // it is somebody else's
		fd, err = openat(dir, name, flags)
	}
	return fd, err
}

// recordOf returns what a stat tells of a file, and whether it has holes.
func recordOf(st *unix.Stat_t) (r record, sparse bool) {
	return record{inodeID: inodeID{st.Dev, st.Ino}, ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano(), bytes: st.Size}, isSparse(st.Size, st.Blocks)
}

// isSparse reports whether a file is longer than its blocks.
func isSparse(size, blocks int64) bool { return blocks*512+4096 <= size }

// isRacy reports whether a file that has this time may be changed again after an instant without
// getting another one.
func isRacy(ctime int64, at time.Time) bool {
	span := tick
	if ctime%int64(time.Second) == 0 {
		span = coarse
	}
	return ctime > at.Add(-span).UnixNano()
}

// content stores what an open file has, and completes its record. It does not read beyond the size that the record has.
func (s *scan) content(c *object.Coder, fd int, r record, sparse bool) (record, error) {
	if sparse || r.bytes > object.WholeSize {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return r, err
		}
		file := os.NewFile(uintptr(dup), "")
		defer file.Close()
		return s.large(c, file, r, sparse)
	}
	content := c.Buffer(r.bytes)
	n, err := readAll(fd, content)
	if err != nil {
		return r, err
	}
	r.bytes = int64(n)
	if r.hash, err = s.objects.Put(content[:n]); err != nil {
		err = object.StoreError{Err: err}
	}
	return r, err
}

// readAll reads a file from its beginning, until it ends or b is full.
func readAll(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		more, err := unix.Pread(fd, b[n:], int64(n))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || more == 0 {
			return n, err
		}
		n += more
	}
	return n, nil
}

// large is content for files that have holes or do not fit into memory.
func (s *scan) large(c *object.Coder, file *os.File, r record, sparse bool) (record, error) {
	if sparse {
		list, err := holes.Extents(file, r.bytes)
		if err != nil {
			return r, err
		}
		if len(list) != 1 || list[0] != (holes.Extent{Offset: 0, Length: r.bytes}) {
			r.flags = tree.Holes
			r.hash, _, err = s.spool(func(sp *object.Spool) error { return holes.Encode(sp, file, list, c.Buffer(object.CopySize)) })
			return r, err
		}
	}
	if r.bytes <= object.WholeSize { // its file system stores it in less
		return s.content(c, int(file.Fd()), r, false)
	}
	var err error
	r.hash, r.bytes, err = s.spool(func(sp *object.Spool) error { return sp.Copy(file, r.bytes, c.Buffer(object.CopySize)) })
	return r, err
}

// spool stores what write writes.
func (s *scan) spool(write func(*object.Spool) error) (h Hash, size int64, err error) {
	sp, err := s.objects.Spool(s.ctx)
	if err != nil {
		return h, 0, object.StoreError{Err: err}
	}
	if err := write(sp); err != nil {
		sp.Discard()
		return h, 0, err
	}
	if h, err = sp.Commit(); err != nil {
		err = object.StoreError{Err: err}
	}
	return h, sp.Size, err
}
