package checkpoint

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Calls that drop checkpoints read the note of a restore that was given up once, not for each of them: it may be a forged one,
// and all others wait. They drop none that is needed to decide.
func TestNoteOfAnUnfinishedRestoreIsReadOnce(t *testing.T) {
	for name, drop := range map[string]func(s *Store) error{
		"for their number": func(s *Store) error { return s.limit(t.Context()) },
		"for room":         func(s *Store) error { _, err := s.dropOldest(t.Context()); return err },
	} {
		t.Run(name, func(t *testing.T) {
			root, s := openForForgery(t)
			s.opts.Max = 8
			first := createNext(t, s, root, 0)
			for i := range s.opts.Max - 1 {
				createNext(t, s, root, i+1)
			}
			text, err := json.Marshal(newJournal(first, someID, nil, newToken()))
			note := filepath.Join(s.dir, unfinishedFile)
			if err = errors.Join(err, os.WriteFile(note, text, 0o600)); err != nil {
				t.Fatal(err)
			}
			s.opts.Max = 2
			unlock, err := s.lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			opens := countOpens(t, note)
			if err := drop(s); err != nil {
				t.Fatal(err)
			}
			if n := opens(); n != 1 {
				t.Errorf("it was opened %d times", n)
			}
			list, err := s.list(t.Context())
			if err != nil || len(list) > 4 || len(list) == 0 || list[0].ID != first {
				t.Errorf("there are %d checkpoints, %v", len(list), err)
			}
		})
	}
}

func createNext(t *testing.T, s *Store, root string, i int) ID {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, "x"), fmt.Append(nil, "state ", i), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// countOpens has the kernel note how often a file is opened from now on.
func countOpens(t *testing.T, path string) (opens func() int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	// With only the one kind, two of them in a row would count as one.
	if _, err := unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_CLOSE_NOWRITE); err != nil {
		t.Fatal(err)
	}
	return func() (count int) {
		buf := make([]byte, 64<<10)
		n, err := unix.Read(fd, buf)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(err)
		}
		for at := 0; at < n; at += unix.SizeofInotifyEvent { // without names, since what is watched is a file
			if mask := binary.NativeEndian.Uint32(buf[at+4:]); mask&unix.IN_OPEN != 0 {
				count++
			}
		}
		return count
	}
}
