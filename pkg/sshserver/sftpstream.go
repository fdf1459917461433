package sshserver

import (
	"context"
	"errors"
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

	mu     sync.Mutex
	next   int64            // what to has
	parked map[int64][]byte // what comes later, by offset
	bytes  int              // of parked, with parkedCost for each
	err    error
}

func newStream(ctx context.Context, client *podapi.Client, name string, opts fsops.WriteOptions) (*stream, error) {
	to, err := client.Create(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return &stream{name: name, to: to, parked: map[int64][]byte{}}, nil
}

// errOrder says that a new file cannot be written so.
var errOrder = errors.New("a new file is written from its beginning to its end: write it elsewhere, and copy it")

func (s *stream) WriteAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && len(p) > 0 && !s.fits(p, offset) {
		s.err = &fs.PathError{Op: "write", Path: s.name, Err: errOrder}
	}
	if s.err != nil || len(p) == 0 {
		return 0, s.err
	}
	if offset > s.next {
		s.parked[offset] = p // the packet's own memory, which nobody uses again
		s.bytes += len(p) + parkedCost
		return len(p), nil
	}
	s.err = s.send(p)
	for next := s.parked[s.next]; s.err == nil && next != nil; next = s.parked[s.next] {
		delete(s.parked, s.next)
		s.bytes -= len(next) + parkedCost
		s.err = s.send(next)
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

func (s *stream) drop() { _ = s.to.Close() } // it never fails
