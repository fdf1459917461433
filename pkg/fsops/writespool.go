package fsops

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A spool holds the new content of a file until it is complete and checked.
type spool struct {
	file *os.File
	dir  string // on the file system that has it
	// name is the spool's path; empty if it has none (see openUnnamed).
	name string
	// beside says that it lies in the destination's directory, so that it can
	// become the destination.
	beside bool
	// refused is why it lies elsewhere; nil if beside.
	refused error
	closed  bool
}

// openSpool opens a spool for a destination in dir. If dir takes no new files, an
// existing destination may still be writable: its spool is a temporary file
// elsewhere.
func openSpool(dir string, perm fs.FileMode, existing bool) (*spool, error) {
	s, err := newSpool(dir, perm)
	if err == nil {
		s.beside = true
		return s, nil
	}
	if !existing || !needsInPlace(err) {
		return nil, err
	}
	elsewhere, otherErr := newSpool(os.TempDir(), 0o600)
	if otherErr != nil {
		return nil, fmt.Errorf("cannot hold the content until it is complete: %w", otherErr)
	}
	elsewhere.refused = err
	return elsewhere, nil
}

func newSpool(dir string, perm fs.FileMode) (*spool, error) {
	if file, err := openUnnamed(dir, perm); err == nil {
		return &spool{file: file, dir: dir}, nil
	}
	// File systems without unnamed files have many errors. A fault of dir itself
	// fails the named file, too, which reports it.
	var file *os.File
	name, err := atFreeName(dir, func(path string) (err error) {
		file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &spool{file: file, dir: dir, name: name}, nil
}

// atFreeName calls create with the path of a short random name in dir, and
// with another one if that exists, and returns the path at which it succeeded.
func atFreeName(dir string, create func(path string) error) (string, error) {
	var err error
	for range tempAttempts {
		path := filepath.Join(dir, ".tmp-"+strings.ToLower(rand.Text()[:10]))
		if err = create(path); err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return "", err
}

// linkAs makes the spool the file at path, which must not exist (EEXIST).
func (s *spool) linkAs(path string) error {
	if s.name == "" {
		return linkUnnamed(s.file, path)
	}
	if err := s.close(); err != nil {
		return err
	}
	return s.renamed(renameNoReplace(s.name, path))
}

// renameTo makes the spool the file at path in place of the one that exists.
func (s *spool) renameTo(path string) error {
	if s.name != "" {
		if err := s.close(); err != nil {
			return err
		}
		return s.renamed(os.Rename(s.name, path))
	}
	name, err := atFreeName(filepath.Dir(path), func(name string) error {
		return linkUnnamed(s.file, name)
	})
	if err != nil {
		return err
	}
	if err := os.Rename(name, path); err != nil {
		// Remove it now, and not when the spool is discarded: a long write in place may
		// follow, and this process may be killed during it.
		_ = os.Remove(name)
		return err
	}
	return nil
}

func (s *spool) renamed(err error) error {
	if err == nil {
		s.name = ""
	}
	return err
}

// reader returns the content from its beginning.
func (s *spool) reader() (io.Reader, error) {
	if s.closed {
		file, err := os.Open(s.name)
		if err != nil {
			return nil, err
		}
		s.file, s.closed = file, false
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return s.file, err
}

// close closes the file before it is renamed, as some platforms demand. Some
// file systems report only now that the content was not stored.
func (s *spool) close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	return s.file.Close()
}

func (s *spool) sync() error {
	if s.closed {
		return nil // done before it was closed
	}
	return s.file.Sync()
}

// stat describes the spool, which is now the file at path.
func (s *spool) stat(path string) (fs.FileInfo, error) {
	if s.closed {
		return os.Lstat(path)
	}
	return s.file.Stat()
}

// discard closes the spool, and removes it unless it became the destination.
func (s *spool) discard() {
	_ = s.close()
	if s.name != "" {
		_ = os.Remove(s.name)
	}
}
