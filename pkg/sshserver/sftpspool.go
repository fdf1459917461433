package sshserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// spool is a file that a client changes in some places, or reads as well as writes. podapi replaces
// whole files, so it is fetched into a temporary file of this machine, and sent back at its end, if
// nobody else has changed it meanwhile.
type spool struct {
	ctx     context.Context
	client  *podapi.Client
	name    string
	opts    fsops.WriteOptions
	append  bool   // all writes go to the end
	release func() // counts it no more
	room    *room

	mu   sync.Mutex
	file *os.File // nil after drop
	size int64
	held int64 // what the room has counted
}

var (
	errSpools = fmt.Errorf("this connection changes %d files in place, and may not change more", maxSpools)
	errNoRoom = errors.New("there is no room here for more of files that are changed in place")
)

// newSpool opens a file for changes. If attr is not nil, it describes the content to begin with.
func (f *files) newSpool(name string, attr *fsops.Attr, opts fsops.WriteOptions) (*spool, error) {
	if attr != nil && attr.Size > maxSpool {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EFBIG}
	}
	if f.conn.spools.Add(1) > maxSpools {
		f.conn.spools.Add(-1)
		return nil, &fs.PathError{Op: "open", Path: name, Err: errSpools}
	}
	s := &spool{ctx: f.ctx, client: f.client, name: name, opts: opts, room: &f.conn.disk, release: sync.OnceFunc(func() { f.conn.spools.Add(-1) })}
	if err := s.open(attr); err != nil {
		s.drop()
		return nil, err
	}
	return s, nil
}

// open makes the temporary file, and fetches the content into it.
func (s *spool) open(attr *fsops.Attr) (err error) {
	if s.file, err = os.CreateTemp("", "podagent-sftp-"); err != nil {
		// The class of err is not that of an error of the sandbox's file.
		return &fs.PathError{Op: "open", Path: s.name, Err: fmt.Errorf("it cannot be changed in place, as no temporary file can be made here: %v", err)}
	}
	_ = os.Remove(s.file.Name()) // where open files cannot be removed, drop does it
	if attr == nil {
		return nil
	}
	read, err := s.client.Read(s.ctx, s.name, io.NewOffsetWriter(s, 0), fsops.ReadOptions{Length: maxSpool})
	s.opts.IfMatch, s.size = read.Attr.ETag, read.Sum.Size
	return err
}

func (s *spool) WriteAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.append {
		offset = s.size
	}
	switch {
	case s.file == nil:
		return 0, fs.ErrClosed
	case offset < 0 || offset > maxSpool-int64(len(p)):
		return 0, &fs.PathError{Op: "write", Path: s.name, Err: syscall.EFBIG}
	}
	if err := s.hold(offset + int64(len(p))); err != nil {
		return 0, err
	}
	n, err := s.file.WriteAt(p, offset)
	if n > 0 { // writing nothing makes no file longer
		s.size = max(s.size, offset+int64(n))
	}
	return n, err
}

func (s *spool) ReadAt(p []byte, offset int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return 0, fs.ErrClosed
	}
	return s.file.ReadAt(p, offset)
}

func (s *spool) length() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

func (s *spool) truncate(size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.file == nil:
		return fs.ErrClosed
	case size < 0 || size > maxSpool:
		return &fs.PathError{Op: "truncate", Path: s.name, Err: syscall.EFBIG}
	}
	if err := s.hold(size); err != nil {
		return err
	}
	err := s.file.Truncate(size)
	s.size = size
	return err
}

// hold has the room count a file of this size, if it does not yet. It is called with mu.
func (s *spool) hold(size int64) error {
	if size <= s.held {
		return nil
	}
	if !s.room.take(size - s.held) {
		return &fs.PathError{Op: "write", Path: s.name, Err: errNoRoom}
	}
	s.held = size
	return nil
}

func (s *spool) commit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return fs.ErrClosed
	}
	_, err := s.client.Write(s.ctx, s.name, io.NewSectionReader(s.file, 0, s.size), s.opts)
	return err
}

func (s *spool) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		name := s.file.Name()
		_ = errors.Join(s.file.Close(), os.Remove(name)) // it may be removed already
	}
	s.file = nil
	s.room.give(s.held)
	s.held = 0
	s.release()
}
