package object

import (
	"context"
	"errors"
	"hash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A Spool is a new object that does not fit into memory.
type Spool struct {
	ctx  context.Context
	o    *Store
	file *os.File // nil if nothing is to be stored
	sum  hash.Hash
	// Size is how many bytes it has so far.
	Size int64
}

// Spool begins a new object. The caller commits or discards it.
func (o *Store) Spool(ctx context.Context) (*Spool, error) {
	s := &Spool{ctx: ctx, o: o, sum: NewSum()}
	if o.hashOnly {
		return s, nil
	}
	var err error
	s.file, err = os.OpenFile(o.Temporary(), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	return s, err
}

// Write adds to the object. Its errors are [StoreError]s.
func (s *Spool) Write(p []byte) (n int, err error) {
	if err := s.ctx.Err(); err != nil {
		return 0, StoreError{err}
	}
	n = len(p)
	if s.file != nil {
		n, err = s.file.Write(p)
	}
	s.sum.Write(p[:n])
	if countErr := s.count(int64(n)); err == nil {
		err = countErr
	}
	return n, storeError(err)
}

// count counts bytes of the object, which Discard takes off again.
func (s *Spool) count(n int64) error {
	s.Size += n
	if s.file == nil {
		return nil
	}
	return s.o.take(n)
}

// Copy makes the object of up to size bytes of a file, with a buffer. It clones the file where the file system can do that: then the
// object shares its blocks, and nothing that changes the file afterwards changes the object.
func (s *Spool) Copy(file *os.File, size int64, buf []byte) error {
	if s.file != nil && unix.IoctlFileClone(int(s.file.Fd()), int(file.Fd())) == nil {
		return s.adopt(size, buf)
	}
	_, err := io.CopyBuffer(s, io.NewSectionReader(file, 0, size), buf)
	return err
}

// adopt makes the object of the first size bytes of what a clone has put into its file.
func (s *Spool) adopt(size int64, buf []byte) error {
	if err := s.file.Truncate(size); err != nil {
		return StoreError{err}
	}
	n, err := io.CopyBuffer(s.sum, contextReader{s.ctx, io.NewSectionReader(s.file, 0, size)}, buf)
	if countErr := s.count(n); err == nil {
		err = storeError(countErr)
	}
	return err
}

// A contextReader fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, StoreError{err}
	}
	return r.r.Read(p)
}

// Discard removes what was written. It ends the spool.
func (s *Spool) Discard() {
	if s.file != nil {
		s.file.Close()
		_ = os.Remove(s.file.Name())
		s.o.used.Add(-s.Size)
	}
}

// Commit makes what was written an object. It ends the spool.
func (s *Spool) Commit() (h Hash, err error) {
	h = Hash(s.sum.Sum(nil))
	if s.file == nil {
		return h, nil
	}
	if s.o.hasLarge(h) {
		s.Discard()
		return h, nil
	}
	err = errors.Join(s.file.Chmod(0o400), s.file.Close())
	if err != nil {
		s.Discard()
		return h, err
	}
	return h, s.o.publish(s.file.Name(), h, s.Size)
}

// A StoreError is one of the store's, and not of the file that is read.
type StoreError struct{ Err error }

func storeError(err error) error {
	if err == nil {
		return nil
	}
	return StoreError{err}
}

func (e StoreError) Error() string { return e.Err.Error() }

func (e StoreError) Unwrap() error { return e.Err }
