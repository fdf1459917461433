package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A restore touches nothing for its name alone: of the files that are called as if a restore had staged them, it knows those of
// its own journal.
func TestRestoreTakesNoFilesForItsOwnByTheirPrefix(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1", "d/x": "1"}, checkpoint.Options{})
	c, err := s.Create(t.Context(), checkpoint.CreateOptions{Exclude: []string{".*"}})
	if err != nil {
		t.Fatal(err)
	}
	after := map[string]string{"a": "2", ".podagent-restore-notes": "mine", ".podagent-restore-abcdefghij-1": "mine", "d/.podagent-restore-notes": "mine"}
	writeFiles(t, root, after)
	for _, paths := range [][]string{{"a"}, nil} {
		if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: paths}); err != nil {
			t.Fatal(err)
		}
		after["a"], after["d/x"] = "1", "1"
		if diff := cmp.Diff(after, readFiles(t, root)); diff != "" {
			t.Errorf("restoring %q: %s", paths, diff)
		}
	}
}

// What a restore had staged when it was cut off goes, even where the checkpoint excludes it, and nothing of others: with the
// recovery, or with the restore of everything that decides about one that was given up.
func TestWhatWasStagedGoes(t *testing.T) {
	recovers := func(t *testing.T, s *checkpoint.Store, _ checkpoint.ID) error { return s.Recover(t.Context()) }
	restores := func(t *testing.T, s *checkpoint.Store, id checkpoint.ID) error {
		_, err := s.Restore(t.Context(), id, checkpoint.RestoreOptions{})
		return err
	}
	for name, test := range map[string]struct {
		exclude []string
		journal string
		act     func(*testing.T, *checkpoint.Store, checkpoint.ID) error
		kept    map[string]string // what stays of files that no restore has staged
	}{
		"recovering":                     {nil, "journal", recovers, map[string]string{"b": "2", ".podagent-restore-bcdefghijk-x": "mine"}},
		"recovering, excluded":           {[]string{".*"}, "journal", recovers, map[string]string{"b": "2", ".podagent-restore-bcdefghijk-x": "mine"}},
		"restoring everything, excluded": {[]string{".*"}, "unfinished", restores, map[string]string{"b": "1", ".podagent-restore-bcdefghijk-x": "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			root, s := newTree(t, map[string]string{"a": "1", "b": "1"}, checkpoint.Options{})
			opts := checkpoint.CreateOptions{Exclude: test.exclude}
			target, err := s.Create(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"a": "2", "b": "2"})
			before, err := s.Create(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{".podagent-restore-abcdefghij-x": "1", ".podagent-restore-bcdefghijk-x": "mine"})
			text := fmt.Sprintf(`{"target":%q,"before":%q,"paths":["YQ=="],"token":"abcdefghij"}`, target.ID, before.ID) // the path a
			if err := os.WriteFile(filepath.Join(filepath.Dir(root), "store", test.journal), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := test.act(t, s, target.ID); err != nil {
				t.Fatal(err)
			}
			test.kept["a"] = "1"
			if diff := cmp.Diff(test.kept, readFiles(t, root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A journal whose token is none is damaged: it must not make any file of the tree one that was staged.
func TestJournalWithAForgedTokenIsRefused(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1"}, checkpoint.Options{})
	id := create(t, s).ID
	writeFiles(t, root, map[string]string{"a": "2", ".podagent-restore-x": "mine"})
	for _, token := range []string{"x", "../../../..", "ABCDEFGHIJ", "abcdefghijk", "abcdefghi-"} {
		text := fmt.Sprintf(`{"target":%q,"before":%q,"token":%q}`, id, id, token)
		if err := os.WriteFile(filepath.Join(filepath.Dir(root), "store", "journal"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Recover(t.Context()); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("with the token %q: %v", token, err)
		}
	}
	if got := readFiles(t, root)["a"]; got != "2" {
		t.Errorf("it has %q", got)
	}
}
