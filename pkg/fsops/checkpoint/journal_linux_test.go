package checkpoint

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

const someID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func pathsOf(n, size int) (paths []string) {
	for range n {
		paths = append(paths, strings.Repeat("a", size))
	}
	return paths
}

// A journal is what a restore writes, or it is damaged: whoever can write to the store can forge one that would keep the
// next process busy for hours.
func TestJournalIsBoundedWhenItIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		paths []string
		why   string
		ok    bool
	}{
		"the largest":                {pathsOf(maxPaths, maxPathBytes/maxPaths), strings.Repeat("<", maxReason), true},
		"of everything":              {nil, "", true},
		"of too many paths":          {pathsOf(maxPaths+1, 1), "", false},
		"of paths that are too long": {pathsOf(400, 200), "", false},
		"of a path that leads out":   {[]string{"../a"}, "", false},
		"with a reason without end":  {nil, strings.Repeat("w", maxJournal), false},
	} {
		t.Run(name, func(t *testing.T) {
			root, s := openForForgery(t)
			j := newJournal(someID, someID, c.paths, newToken())
			j.Why = c.why
			if err := s.writeJournal(j); err != nil {
				t.Fatal(err)
			}
			if _, err := s.readJournal(journalFile); c.ok && err != nil || !c.ok && !errors.Is(err, ErrCorrupt) {
				t.Errorf("reading it: %v", err)
			}
			if err := os.WriteFile(filepath.Join(root, "x"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := s.Recover(t.Context()); c.ok != errors.Is(err, ErrUnfinished) || c.ok == errors.Is(err, ErrCorrupt) || s.Interrupted() {
				t.Errorf("recovering: %v", err)
			}
		})
	}
}

// Restores write no journal that the next process would not read.
func TestRestoreOfTooManyPathsIsRefused(t *testing.T) {
	_, s := openForForgery(t)
	c, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, paths := range map[string][]string{"many": pathsOf(maxPaths+1, 1), "long": pathsOf(400, 200)} {
		if _, err := s.Restore(t.Context(), c.ID, RestoreOptions{Paths: paths}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Restore(t.Context(), c.ID, RestoreOptions{Paths: pathsOf(maxPaths, maxPathBytes/maxPaths)}); !errors.Is(err, fs.ErrNotExist) { // it looks for them
		t.Errorf("of as many as there may be: %v", err)
	}
}

// A manifest that somebody has forged in the store has a restore compare each file with no more globs than others have.
func TestRestoreOfTooManyGlobsIsRefused(t *testing.T) {
	_, s := openForForgery(t)
	if _, err := s.Create(t.Context(), CreateOptions{Exclude: pathsOf(maxExcluded+1, 1)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("creating one: %v", err)
	}
	c, err := s.Create(t.Context(), CreateOptions{Exclude: pathsOf(maxExcluded, maxExcludedSize/maxExcluded)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, RestoreOptions{}); err != nil {
		t.Errorf("with as many as there may be: %v", err)
	}
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.manifest(c.ID)
	if err != nil {
		t.Fatal(err)
	}
	m.Exclude = append(m.Exclude, "b")
	forged, err := s.writeManifest(m)
	unlock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), forged, RestoreOptions{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("with more: %v", err)
	}
}

// Whoever can write to the store can have the note of a restore that was given up say anything. What it says comes in one
// line, and after what helps.
func TestReasonOfAnUnfinishedRestoreComesLast(t *testing.T) {
	_, s := openForForgery(t)
	c, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j := newJournal(c.ID, c.ID, nil, newToken())
	j.Why = "run this:\n" + strings.Repeat("é", 2*maxReason)
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, unfinishedFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), CreateOptions{})
	if !errors.Is(err, ErrUnfinished) {
		t.Fatal(err)
	}
	said := err.Error()
	at := strings.Index(said, "run this: é")
	if at < 0 || strings.LastIndex(said, string(c.ID)) > at || len(said)-at > maxReason+10 || !utf8.ValidString(said) {
		t.Errorf("it has %d bytes: %.500s", len(said), said)
	}
}

func FuzzJournal(f *testing.F) {
	text, err := json.Marshal(newJournal(someID, someID, []string{"a", "b/c"}, newToken()))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := decodeJournal(text)
		switch {
		case err != nil && !errors.Is(err, ErrCorrupt):
			t.Error(err)
		case err == nil && (len(j.Why) > maxReason || strings.ContainsAny(j.Why, "\r\n") || len(j.Paths) > maxPaths):
			t.Errorf("it has %d paths, and the reason %q", len(j.Paths), j.Why)
		}
	})
}

// A restore of paths makes directories around them writable for a moment. One that was killed meanwhile does not leave them so.
func TestKilledRestoreGivesDirectoriesAroundItsPathsTheirModes(t *testing.T) {
	root, s := openForForgery(t)
	file, around := filepath.Join(root, "ro", "sub", "file"), filepath.Join(root, "ro")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("1"), 0o600), os.Chmod(around, 0o555)); err != nil {
		t.Fatal(err)
	}
	var ids []ID
	for _, text := range []string{"1", "2"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := s.Create(t.Context(), CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID)
	}
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = s.writeJournal(newJournal(ids[0], ids[1], []string{"ro/sub"}, newToken()))
	unlock()
	if err = errors.Join(err, os.Chmod(around, 0o755)); err != nil { // as the restore does
		t.Fatal(err)
	}
	next, err := Open(s.dir, root, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(around)
	if text, readErr := os.ReadFile(file); errors.Join(err, readErr) != nil || string(text) != "1" || info.Mode().Perm() != 0o555 {
		t.Errorf("the file has %q, and the directory around it is %v", text, info)
	}
}

// A Populate that was killed is completed, or undone. Only if all is there, the tree counts as populated. What is protected
// stays missing, since whoever can write to the store can forge a journal.
func TestKilledPopulateIsCompletedOrUndone(t *testing.T) {
	for name, c := range map[string]struct {
		protected, damaged bool
		recovered, again   error
	}{
		"completed":                   {again: unix.EEXIST},
		"but for what is protected":   {protected: true, recovered: ErrIncomplete, again: unix.ENOTEMPTY},
		"undone, since it is damaged": {damaged: true, again: unix.ENOTEMPTY},
	} {
		t.Run(name, func(t *testing.T) {
			root, s := openForForgery(t)
			hook := filepath.Join(root, "hook")
			text := strings.Repeat("1", object.WholeSize+1)
			if err := os.WriteFile(hook, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			target := killedPopulate(t, s, hook)
			if c.protected {
				s.opts.Protected = func(string) error { return errors.New("it is protected") }
			}
			if c.damaged {
				if err := os.RemoveAll(s.path(objectsDir)); err != nil {
					t.Fatal(err)
				}
			}

			next, err := Open(s.dir, root, s.opts)
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Recover(t.Context()); !errors.Is(err, c.recovered) {
				t.Errorf("recovering: %v, want %v", err, c.recovered)
			}
			now, err := os.ReadFile(hook)
			if missing := c.protected || c.damaged; missing != errors.Is(err, fs.ErrNotExist) || !missing && string(now) != text {
				t.Errorf("the hook has %d bytes, %v", len(now), err)
			}
			if err := os.WriteFile(filepath.Join(root, "later"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := next.Populate(t.Context(), target); !errors.Is(err, c.again) {
				t.Errorf("once more: %v, want %v", err, c.again)
			}
		})
	}
}

// killedPopulate leaves what a process leaves that is killed when it begins to populate a tree from a checkpoint with this file.
func killedPopulate(t *testing.T, s *Store, file string) (target ID) {
	t.Helper()
	c, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	cutOffPopulate(t, s, c.ID)
	return c.ID
}

// cutOffPopulate writes the journal of a Populate of an empty tree that has made no file yet.
func cutOffPopulate(t *testing.T, s *Store, target ID) {
	t.Helper()
	empty, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	j := newJournal(target, empty.ID, nil, newToken())
	j.Populate = true
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := s.writeJournal(j); err != nil {
		t.Fatal(err)
	}
}
