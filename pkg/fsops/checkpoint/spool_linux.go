package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A spool is a new object that does not fit into memory.
type spool struct {
	ctx  context.Context
	o    *objects
	file *os.File // nil if nothing is to be stored
	sum  hash.Hash
	size int64
}

func (o *objects) spool(ctx context.Context) (*spool, error) {
	s := &spool{ctx: ctx, o: o, sum: sha256.New()}
	if o.hashOnly {
		return s, nil
	}
	var err error
	s.file, err = os.OpenFile(o.temporary(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return s, err
}

// Write adds to the object. Its errors are storeErrors.
func (s *spool) Write(p []byte) (n int, err error) {
	if err := s.ctx.Err(); err != nil {
		return 0, storeError{err}
	}
	n = len(p)
	if s.file != nil {
		if n, err = s.file.Write(p); err == nil {
			err = s.o.take(int64(n))
		}
		if err != nil {
			err = storeError{err}
		}
	}
	s.sum.Write(p[:n])
	s.size += int64(n)
	return n, err
}

// copy adds up to size bytes of a file. It clones the file where the file system can do that: then the
// object shares its blocks, and nothing that changes the file afterwards changes the object.
func (s *spool) copy(file *os.File, size int64, buf []byte) error {
	if s.file != nil && unix.IoctlFileClone(int(s.file.Fd()), int(file.Fd())) == nil {
		if err := s.file.Truncate(size); err != nil {
			return storeError{err}
		}
		n, err := io.CopyBuffer(onlyWriter{s.sum}, contextReader{s.ctx, io.NewSectionReader(s.file, 0, size)}, buf)
		s.size = n
		return err
	}
	_, err := io.CopyBuffer(onlyWriter{s}, onlyReader{io.NewSectionReader(file, 0, size)}, buf)
	return err
}

// A contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, storeError{err}
	}
	return r.r.Read(p)
}

// discard removes what was written.
func (s *spool) discard() {
	if s.file != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name())
		s.o.used.Add(-s.size)
	}
}

// commit makes what was written an object.
func (s *spool) commit() (h Hash, err error) {
	h = Hash(s.sum.Sum(nil))
	if s.file == nil {
		return h, nil
	}
	if s.o.hasLarge(h) {
		s.discard()
		return h, nil
	}
	err = errors.Join(s.file.Chmod(0o400), s.file.Close())
	if err != nil {
		s.discard()
		return h, err
	}
	return h, s.o.publish(s.file.Name(), h)
}
