package object

import (
	"bytes"
	"testing"
)

// A spool takes room, whether its bytes were written or a clone has brought them. It takes none once it is discarded,
// and neither does one whose object is there already.
func TestSpoolCountsItsRoom(t *testing.T) {
	content := noisy(1, 3<<20)
	size := int64(len(content))
	commit := func(s *Spool) error { _, err := s.Commit(); return err }
	for name, fill := range map[string]func(s *Spool) error{
		"written": func(s *Spool) error { _, err := s.Write(content); return err },
		"cloned": func(s *Spool) error {
			if _, err := s.file.Write(append(bytes.Clone(content), "beyond its size"...)); err != nil {
				return err
			}
			return s.adopt(size, make([]byte, CopySize))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := openStore(t, t.TempDir())
			for _, step := range []struct {
				what          string
				end           func(s *Spool) error
				during, after int64
			}{
				{"discarded", func(s *Spool) error { s.Discard(); return nil }, size, 0},
				{"committed", commit, size, size},
				{"committed again", commit, 2 * size, size},
			} {
				s, err := o.Spool(t.Context())
				if err == nil {
					err = fill(s)
				}
				if err != nil {
					t.Fatal(err)
				}
				if used := o.Used(); used != step.during {
					t.Errorf("%s: before, %d bytes are used, want %d", step.what, used, step.during)
				}
				if err := step.end(s); err != nil {
					t.Fatal(err)
				}
				if used := o.Used(); used != step.after {
					t.Errorf("%s: %d bytes are used, want %d", step.what, used, step.after)
				}
			}
		})
	}
}
