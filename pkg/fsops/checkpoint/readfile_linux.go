package checkpoint

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A job is a file to be read.
type job struct {
	entry  *entry
	dir    *dirHandle
	name   string
	record int // where its record goes

	found record
	lost  bool // it is not there any more, or cannot be read
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
	c := s.objects.coder()
	defer s.objects.coders.Put(c)
	for j := range s.jobs {
		if s.stopped() == nil {
			s.readFile(c, j)
		}
		j.dir.release()
		j.dir = nil
	}
}

// readFile reads a file until it has not changed while it was read.
func (s *scan) readFile(c *coder, j *job) {
	for try := 1; ; try++ {
		still, err := s.readOnce(c, j)
		switch {
		case errors.Is(err, unix.ENOENT) && try == 1:
			j.lost = true
			return
		case errors.As(err, new(storeError)):
			s.stop(err)
			return
		case err != nil && !(errors.Is(err, io.ErrUnexpectedEOF) && try < readTries):
			j.lost = true
			s.leave(join(j.dir.path, j.name), err.Error())
			return
		case still:
			return
		}
		if err == nil && (try >= readTries || try >= readTriesLarge && j.found.bytes > large || s.stopped() != nil) {
			j.found.flags |= racy
			s.moves(join(j.dir.path, j.name))
			return
		}
	}
}

// A storeError is one of the store's, and not of the file that is read.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// readOnce reads a file, and reports whether it kept still.
func (s *scan) readOnce(c *coder, j *job) (still bool, err error) {
	fd, err := openat(j.dir.fd, j.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return false, err
	}
	file := os.NewFile(uintptr(fd), j.name)
	defer file.Close()
	var before, after unix.Stat_t
	if err := unix.Fstat(fd, &before); err != nil {
		return false, err
	}
	if before.Mode&unix.S_IFMT != unix.S_IFREG {
		return false, errors.New("another file took its place")
	}
	started := time.Now()
	if j.found, err = s.content(c, file, &before); err != nil {
		return false, err
	}
	if err := unix.Fstat(fd, &after); err != nil {
		return false, err
	}
	if s.mapped[before.Ino] || isRacy(j.found.ctime, started) {
		j.found.flags |= racy
	}
	return after.Size == before.Size && after.Ctim == before.Ctim && after.Mtim == before.Mtim, nil
}

// isRacy reports whether a file that has this time may be changed again after an instant without
// getting another one.
func isRacy(ctime int64, at time.Time) bool {
	span := tick
	if ctime%int64(time.Second) == 0 {
		span = coarse
	}
	return ctime > at.Add(-span).UnixNano()
}

// content stores what an open file has.
func (s *scan) content(c *coder, file *os.File, st *unix.Stat_t) (r record, err error) {
	r = record{inodeID: inodeID{st.Dev, st.Ino}, ctime: st.Ctim.Nano(), mtime: st.Mtim.Nano(), bytes: st.Size}
	if st.Blocks*512+4096 <= st.Size {
		list, err := extents(file, st.Size)
		if err != nil {
			return r, err
		}
		if len(list) != 1 || list[0] != (extent{0, st.Size}) {
			r.flags = holes
			r.hash, _, err = s.spool(func(sp *spool) error { return writeSparse(sp, file, list, c.buffer()) })
			return r, err
		}
	}
	if st.Size > wholeSize {
		r.hash, r.bytes, err = s.spool(func(sp *spool) error { return sp.copy(file, st.Size, c.buffer()) })
		return r, err
	}
	c.content = grow(c.content, st.Size)
	n, err := io.ReadFull(io.NewSectionReader(file, 0, st.Size), c.content)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return r, err
	}
	r.bytes = int64(n)
	if r.hash, err = s.objects.put(c.content[:n]); err != nil {
		err = storeError{err}
	}
	return r, err
}

// spool stores what write writes.
func (s *scan) spool(write func(*spool) error) (h Hash, size int64, err error) {
	sp, err := s.objects.spool(s.ctx)
	if err != nil {
		return h, 0, storeError{err}
	}
	if err := write(sp); err != nil {
		sp.discard()
		return h, 0, err
	}
	if h, err = sp.commit(); err != nil {
		err = storeError{err}
	}
	return h, sp.size, err
}

// buffer is for copies of content that does not fit into memory.
func (c *coder) buffer() []byte {
	c.content = grow(c.content, copySize)
	return c.content
}
