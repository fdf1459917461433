package sshserver

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// newTestStream returns a stream that sends nothing.
func newTestStream(room *room) *stream { return &stream{room: room, parked: map[int64][]byte{}} }

func newRoom(limit int64) *room { return &room{limit: limit} }

func TestWritesOfNothingKeepNothing(t *testing.T) {
	s := newTestStream(newRoom(maxMemory))
	for i := range int64(10000) {
		if n, err := s.WriteAt(nil, i); n != 0 || err != nil {
			t.Fatalf("at %d: %d, %v", i, n, err)
		}
	}
	if len(s.parked) != 0 || s.bytes != 0 {
		t.Errorf("%d writes of nothing are kept, as %d bytes", len(s.parked), s.bytes)
	}
}

func TestWritesThatWaitAreBoundedHoweverSmall(t *testing.T) {
	for _, size := range []int{1, 32 << 10} {
		s := newTestStream(newRoom(maxMemory))
		taken := 0
		for at := int64(1); taken < 1<<20; at += int64(size) {
			if _, err := s.WriteAt(make([]byte, size), at); err != nil {
				if !errors.Is(err, errOrder) {
					t.Error(err)
				}
				break
			}
			taken++
		}
		// OpenSSH's sftp has 64 under way.
		if taken < 64 || taken > 10000 || len(s.parked) != taken {
			t.Errorf("%d writes of %d bytes wait", taken, size)
		}
	}
}

// A packet may be far longer than the write in it.
func TestWritesThatWaitKeepNothingElseOfTheirPackets(t *testing.T) {
	s := newTestStream(newRoom(maxMemory))
	packet := make([]byte, 256<<10)
	packet[0] = 7
	if _, err := s.WriteAt(packet[:1], 1); err != nil {
		t.Fatal(err)
	}
	if kept := s.parked[1]; cap(kept) > parkedCost || len(kept) != 1 || kept[0] != 7 {
		t.Errorf("%d bytes are kept of a write of one", cap(kept))
	}
}

func TestTheFilesOfAConnectionHaveOneRoomForWritesThatWait(t *testing.T) {
	var beyond int64
	r := &room{limit: 3 * (100 + parkedCost), beyond: func(n int64) bool { beyond += n; return true }}
	streams := []*stream{newTestStream(r), newTestStream(r), newTestStream(r)}
	for _, s := range streams {
		if _, err := s.WriteAt(make([]byte, 100), 1); err != nil {
			t.Error(err)
		}
	}
	if _, err := streams[0].WriteAt([]byte("x"), 1000); !errors.Is(err, errNoMemory) {
		t.Errorf("more than the room has: %v", err)
	}
	for _, s := range streams {
		s.unpark(s.bytes)
	}
	if r.used != 0 || beyond != 0 {
		t.Errorf("%d and %d bytes stay counted", r.used, beyond)
	}
}

func TestChangedFilesHaveOneRoom(t *testing.T) {
	r := newRoom(100)
	var spools []*spool
	for range 2 {
		file, err := os.Create(filepath.Join(t.TempDir(), "spool"))
		if err != nil {
			t.Fatal(err)
		}
		s := &spool{file: file, room: r, release: func() {}}
		defer s.drop()
		spools = append(spools, s)
	}
	if _, err := spools[0].WriteAt(make([]byte, 60), 0); err != nil {
		t.Error(err)
	}
	if _, err := spools[0].WriteAt(make([]byte, 50), 10); err != nil {
		t.Error("what is there already was counted again:", err)
	}
	if _, err := spools[1].WriteAt([]byte("x"), 60); !errors.Is(err, errNoRoom) {
		t.Errorf("more than the room has: %v", err)
	}
	if err := spools[1].truncate(61); !errors.Is(err, errNoRoom) {
		t.Errorf("more than the room has, by truncate: %v", err)
	}
	spools[0].drop()
	if err := spools[1].truncate(100); err != nil {
		t.Error("what was given back is not free:", err)
	}
}

func TestNoWriteMakesAChangedFileLongerThanItsContent(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	s := &spool{file: file, room: newRoom(maxSpool), release: func() {}}
	defer s.drop()
	for _, offset := range []int64{math.MaxInt64 - 10, maxSpool - 99, -1} {
		if n, err := s.WriteAt(make([]byte, 100), offset); n != 0 || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("at %d: %d, %v", offset, n, err)
		}
	}
	if _, err := s.WriteAt(nil, 1000); err != nil {
		t.Error(err)
	}
	if s.length() != 0 {
		t.Errorf("nothing was written, and the length is %d", s.length())
	}
	if _, err := s.WriteAt(make([]byte, 100), maxSpool-100); err != nil || s.length() != maxSpool {
		t.Errorf("the last that fits: %v, the length is %d", err, s.length())
	}
}
