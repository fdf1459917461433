package sshserver

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWritesOfNothingKeepNothing(t *testing.T) {
	s := &stream{parked: map[int64][]byte{}}
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
		s := &stream{parked: map[int64][]byte{}}
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

func TestNoWriteMakesAChangedFileLongerThanItsContent(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	s := &spool{file: file, release: func() {}}
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
