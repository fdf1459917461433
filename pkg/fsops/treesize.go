package fsops

import (
	"archive/tar"
	"cmp"
	"fmt"
	"math"
	"syscall"
)

// A treeSize bounds what unpacking an archive takes, on the disk and in memory. The maker of
// the archive need not be trusted.
type treeSize struct {
	room
	maxBytes, maxEntries int64

	bytes, entries int64
	dirs           int64 // bytes of memory for directories
}

func newTreeSize(path string, opts ExtractOptions) treeSize {
	s := treeSize{maxBytes: opts.MaxBytes, maxEntries: cmp.Or(opts.MaxEntries, maxTreeEntries)}
	if opts.MaxBytes == 0 {
		s.room = newRoom(path)
	}
	if s.maxBytes <= 0 {
		s.maxBytes = math.MaxInt64
	}
	if s.maxEntries < 0 {
		s.maxEntries = math.MaxInt64
	}
	return s
}

// addEntry takes another entry into account, or refuses it.
func (s *treeSize) addEntry(h *tar.Header) error {
	if len(h.Name) > maxTreeName {
		return syscall.ENAMETOOLONG
	}
	if s.entries++; s.entries > s.maxEntries {
		return fmt.Errorf("the archive has more than %d entries: %w", s.maxEntries, syscall.EFBIG)
	}
	if h.Typeflag == tar.TypeReg && h.Size > s.maxBytes-s.bytes {
		return s.tooLarge()
	}
	return s.use(treeEntrySize)
}

// addBytes takes the next bytes of a file into account, or refuses them.
func (s *treeSize) addBytes(n int) error {
	if s.bytes += int64(n); s.bytes > s.maxBytes {
		return s.tooLarge()
	}
	return s.use(n)
}

func (s *treeSize) tooLarge() error {
	return fmt.Errorf("the archive has files of more than %d bytes: %w", s.maxBytes, syscall.EFBIG)
}

// addDir takes the memory for another directory into account.
func (s *treeSize) addDir(name string) error {
	if s.dirs += int64(len(name)) + treeDirSize; s.dirs > maxTreeDirs {
		return fmt.Errorf("the archive has too many directories: %w", syscall.EFBIG)
	}
	return nil
}
