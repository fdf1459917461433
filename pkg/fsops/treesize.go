package fsops

import (
	"archive/tar"
	"cmp"
	"fmt"
	"math"
	"syscall"
)

// A treeSize bounds what unpacking an archive takes, on the disk and in memory. Who made
// the archive need not be trusted.
type treeSize struct {
	path                 string // of the tree
	maxBytes, maxEntries int64
	reserve              int64 // what has to stay free; 0 if nobody asks

	bytes, entries int64
	dirs           int64 // bytes of memory for directories
	unchecked      int64 // bytes on the disk since the room was looked at
}

func newTreeSize(path string, opts ExtractOptions) treeSize {
	s := treeSize{path: path, maxBytes: opts.MaxBytes, maxEntries: cmp.Or(opts.MaxEntries, maxTreeEntries)}
	if opts.MaxBytes == 0 {
		if free, ok := freeSpace(path); ok {
			s.reserve = min(free/10, maxTreeReserve)
		}
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

// use takes bytes on the disk into account, and looks now and then whether there is
// still room.
func (s *treeSize) use(n int) error {
	if s.reserve == 0 {
		return nil
	}
	if s.unchecked += int64(n); s.unchecked < min(treeStep, s.reserve) {
		return nil
	}
	s.unchecked = 0
	if free, ok := freeSpace(s.path); ok && free < s.reserve {
		return fmt.Errorf("only %d MiB are free: %w", free>>20, syscall.ENOSPC)
	}
	return nil
}
