package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"sync"
	"time"
)

// store keeps journals on disk, in one file without a name. The file is made
// of slots, whose sizes are powers of two from slotMin to slotMax. It is
// written and read through the page cache and never mapped: a disk that is full
// or fails must be an error and not SIGBUS.
//
// A slot that is freed is soon taken again, often by the same output, and its pages are
// still there. Only after trimDelay the store gives a free slot back to the file system,
// as a hole. Until then it counts as used.
//
// Its methods may be called with an output locked, except write, read and trim,
// which wait for the disk.
type store struct {
	log *slog.Logger
	// file is nil when journals are kept in memory.
	file *os.File
	// holes says that the file system takes back parts of the file. If it does not,
	// all slots have one size, so that each fits any journal.
	holes   bool
	lim     *Limits
	account *account

	mu sync.Mutex
	// size is where the last slot ends.
	size int64
	// warm and cold are the free slots by their sizes. Only the warm ones take room on
	// the disk, and count.
	warm, cold map[int][]int64
	warmBytes  int
	// used is the number of slots that are not free.
	used int
	// trimming is set while trim is due.
	trimming bool
	// failing says that the last write failed. Until again, nothing is
	// written.
	failing bool
	again   time.Time
}

// newStore returns a store without a file, in the bounds of lim.
func newStore(lim *Limits, log *slog.Logger) *store {
	return &store{log: log, lim: lim, account: &account{Bounds: &lim.Disk}, warm: map[int][]int64{}, cold: map[int][]int64{}}
}

// openIn opens a file in the first of dirs that can be used. The total then is no more
// than a share of its file system.
func (s *store) openIn(dirs []string) {
	var failed []error
	for _, dir := range dirs {
		file, size, err := openStoreFile(dir)
		if err == nil {
			s.lim.Disk.Total = int(min(int64(s.lim.Disk.Total), size/diskShare))
			s.use(file)
			s.log.Info("the output of processes is kept on disk", "bytes", s.lim.Disk.Total, "directory", dir)
			return
		}
		failed = append(failed, err)
	}
	if failed == nil {
		s.log.Info("the output of processes is kept in memory", "bytes", s.lim.Memory.Total)
		return
	}
	s.log.Warn("the output of processes is kept in memory: no directory can be used for it",
		"bytes", s.lim.Memory.Total, "directories", dirs, "error", errors.Join(failed...))
}

// use makes the store write to file.
func (s *store) use(file *os.File) {
	s.file = file
	s.holes = canPunch(file)
}

// openStoreFile returns a file for the store, and the size of the file system
// that it is on.
func openStoreFile(dir string) (*os.File, int64, error) {
	f, err := openUnlinked(dir)
	if err != nil {
		return nil, 0, err
	}
	size, err := fileSystemSize(f)
	if err == nil {
		err = probe(f)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// medium is the medium of long journals.
func (s *store) medium() medium {
	if s.file == nil {
		return inMemory
	}
	return onDisk
}

// usable reports whether there is a file, and the disk has not just failed.
func (s *store) usable() bool {
	if s.file == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.failing || !time.Now().Before(s.again)
}

// slotSize is the size of the slot for n bytes, at most slotMax.
func (s *store) slotSize(n int) int {
	if !s.holes || n >= slotMax {
		return slotMax
	}
	return max(slotMin, 1<<bits.Len(uint(n-1)))
}

// allocate returns a slot of a size, if all outputs together leave room for it.
func (s *store) allocate(size int) (off int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if off, ok = pop(s.warm, size); ok {
		s.warmBytes -= size
		s.used++
		return off, true
	}
	if !s.account.charge(size) {
		return 0, false
	}
	return s.coldSlot(size), true
}

// coldSlot returns a slot that has no room on the disk yet.
func (s *store) coldSlot(size int) int64 {
	s.used++
	if off, ok := pop(s.cold, size); ok {
		return off
	}
	off := (s.size + int64(size) - 1) &^ (int64(size) - 1)
	s.size = off + int64(size)
	return off
}

func pop(slots map[int][]int64, size int) (off int64, ok bool) {
	list := slots[size]
	if len(list) == 0 {
		return 0, false
	}
	slots[size] = list[:len(list)-1]
	return list[len(list)-1], true
}

// free takes a slot back.
func (s *store) free(off int64, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.warm[size] = append(s.warm[size], off)
	s.warmBytes += size
	if !s.trimming {
		s.trimming = true
		time.AfterFunc(trimDelay, s.trim)
	}
}

// spare is how many bytes the free slots have on the disk. They can be trimmed or, where
// all slots have one size, taken again.
func (s *store) spare() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warmBytes
}

// trim gives the room of the free slots back to the file system.
func (s *store) trim() {
	s.mu.Lock()
	s.trimming = false
	if !s.holes {
		s.truncate()
		s.mu.Unlock()
		return
	}
	warm := s.warm
	s.warm, s.warmBytes = map[int][]int64{}, 0
	s.mu.Unlock()
	var failed error
	for size, list := range warm {
		for _, off := range list {
			if err := s.trimSlot(off, size); err != nil {
				failed = err
			}
		}
	}
	if failed != nil {
		s.log.Error("cannot give room of the output of processes back", "error", failed)
	}
}

// trimSlot makes a hole of a slot that is in no list. If that fails, the slot is warm
// again.
func (s *store) trimSlot(off int64, size int) error {
	err := punch(s.file, off, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.warm[size] = append(s.warm[size], off)
		s.warmBytes += size
		return err
	}
	s.cold[size] = append(s.cold[size], off)
	s.account.refund(size)
	return nil
}

// truncate gives the whole file back once no slot is in use, for a file system that
// cannot make holes. The caller holds the lock, so that no slot is taken meanwhile.
func (s *store) truncate() {
	if s.used > 0 || s.warmBytes == 0 {
		return
	}
	if err := s.file.Truncate(0); err != nil {
		s.log.Error("cannot give room of the output of processes back", "error", err)
		return
	}
	s.account.refund(s.warmBytes)
	s.size, s.warmBytes = 0, 0
	clear(s.warm)
}

// write writes all of b. After an error the store is not usable for a while.
func (s *store) write(b []byte, off int64) error {
	_, err := s.file.WriteAt(b, off)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.failing {
			s.log.Info("the output of processes is kept on disk again")
		}
		s.failing = false
		return nil
	}
	if !s.failing {
		s.log.Error("cannot keep the output of processes on disk: less of it is kept, in memory", "error", err)
	}
	s.failing = true
	s.again = time.Now().Add(diskPause)
	return fmt.Errorf("cannot write to the journal: %w", err)
}

// read reads all of b. A slot that was freed may hold arbitrary bytes.
func (s *store) read(b []byte, off int64) error { return readFull(s.file, b, off) }
