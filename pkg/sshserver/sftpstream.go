package sshserver

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"sync"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// stream is a new content that goes to the sandbox as it comes. Clients send it in order, but some
// writes are under way at once.
type stream struct {
	name string
	to   *podapi.Writer
	room *room

	mu     sync.Mutex
	next   int64            // what to has
	parked map[int64][]byte // what comes later, by offset
	bytes  int              // of parked, with parkedCost for each; the room has counted them
	err    error
}

func (f *files) newStream(name string, opts fsops.WriteOptions) (*stream, error) {
	to, err := f.client.Create(f.ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return &stream{name: name, to: to, room: &f.conn.memory, parked: map[int64][]byte{}}, nil
}

var (
	// errOrder says that a new file cannot be written so.
	errOrder = errors.New("a new file is written from its beginning to its end: write it elsewhere, and copy it")
	// errNoMemory says that too much was written out of order.
	errNoMemory = errors.New("too many writes wait here for those in front of them: write less at once")
)

func (s *stream) WriteAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return 0, s.err
	case len(p) == 0:
		return 0, nil
	case !s.fits(p, offset):
		s.err = &fs.PathError{Op: "write", Path: s.name, Err: errOrder}
	case offset > s.next:
		s.err = s.park(p, offset)
	default:
		s.err = s.sendWithParked(p)
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// fits reports whether a write can be taken: it is the next one, or can wait for those before it.
func (s *stream) fits(p []byte, offset int64) bool {
	if offset <= s.next {
		return offset == s.next
	}
	return s.parked[offset] == nil && s.bytes+len(p)+parkedCost <= maxParked
}

// park keeps a write until those before it have come.
func (s *stream) park(p []byte, offset int64) error {
	if !s.room.take(int64(len(p) + parkedCost)) {
		return &fs.PathError{Op: "write", Path: s.name, Err: errNoMemory}
	}
	s.bytes += len(p) + parkedCost
	// p is the packet's own memory, which nobody uses again. A packet may be longer than what is to be written.
	if cap(p) > len(p) {
		p = bytes.Clone(p)
	}
	s.parked[offset] = p
	return nil
}

// unpark counts bytes that are not parked any more.
func (s *stream) unpark(n int) {
	s.bytes -= n
	s.room.give(int64(n))
}

// sendWithParked sends what is next, and what has waited for that.
func (s *stream) sendWithParked(p []byte) error {
	err := s.send(p)
	for next := s.parked[s.next]; err == nil && next != nil; next = s.parked[s.next] {
		delete(s.parked, s.next)
		s.unpark(len(next) + parkedCost)
		err = s.send(next)
	}
	return err
}

func (s *stream) send(p []byte) error {
	n, err := s.to.Write(p)
	s.next += int64(n)
	return err
}

func (s *stream) length() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// truncate takes the length that the content has anyway.
func (s *stream) truncate(size int64) error {
	if size == s.length() {
		return nil
	}
	return &fs.PathError{Op: "truncate", Path: s.name, Err: errOrder}
}

func (s *stream) commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && len(s.parked) > 0 {
		s.err = &fs.PathError{Op: "write", Path: s.name, Err: errOrder}
	}
	if s.err != nil {
		return s.err
	}
	_, err := s.to.Commit()
	return err
}

func (s *stream) drop() {
	_ = s.to.Close() // it never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpark(s.bytes)
	s.parked = nil
	s.err = cmp.Or(s.err, fs.ErrClosed)
}

// Write implements io.Writer: it continues the content.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = s.send(p)
	}
	if s.err != nil {
		return 0, s.err
	}
	return len(p), nil
}

// takes reports whether WriteAt can take a write.
func (s *stream) takes(p []byte, offset int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(p) == 0 || s.fits(p, offset)
}

// waits reports whether there are writes that wait for others.
func (s *stream) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.parked) > 0
}

// copyTo writes what the stream has got into a file, where it belongs. What was sent is in kept.
func (s *stream) copyTo(to io.WriterAt, kept io.ReaderAt) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := io.Copy(io.NewOffsetWriter(to, 0), io.NewSectionReader(kept, 0, s.next)); err != nil {
		return err
	}
	for offset, p := range s.parked {
		if _, err := to.WriteAt(p, offset); err != nil {
			return err
		}
	}
	return nil
}
