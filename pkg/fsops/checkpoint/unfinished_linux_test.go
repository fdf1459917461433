package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A cut is a tree whose restore was cut off, with a store that is damaged so that it can be neither completed nor undone.
type cut struct {
	root, store    string
	target, before checkpoint.ID
	whole          map[string][]byte // the packs before they were damaged
}

func newCut(t *testing.T) *cut {
	t.Helper()
	root, s := newTree(t, map[string]string{"a": "1", "b": "1"}, checkpoint.Options{})
	c := &cut{root: root, store: filepath.Join(filepath.Dir(root), "store"), target: create(t, s).ID}
	writeFiles(t, root, map[string]string{"a": "2", "b": "2"})
	c.before = create(t, s).ID
	writeFiles(t, root, map[string]string{"a": "1"})
	c.journal(t, c.target, c.before)
	c.whole = damage(t, c.packs(t))
	return c
}

func (c *cut) journal(t *testing.T, target, before checkpoint.ID) {
	t.Helper()
	text := fmt.Sprintf(`{"target":%q,"before":%q}`, target, before)
	if err := os.WriteFile(filepath.Join(c.store, "journal"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// packs returns the paths of a store's packs.
func (c *cut) packs(t *testing.T) []string {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(c.store, "packs", "*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("there are %q, %v", packs, err)
	}
	return packs
}

// damage makes packs ones that nobody can read, and returns what they were.
func damage(t *testing.T, packs []string) map[string][]byte {
	t.Helper()
	whole := map[string][]byte{}
	for _, path := range packs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[path] = text
		if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil { // in place, since it may be open
			t.Fatal(err)
		}
	}
	return whole
}

// next returns the store of a process that starts.
func (c *cut) next(t *testing.T) *checkpoint.Store {
	t.Helper()
	s, err := checkpoint.Open(c.store, c.root, checkpoint.Options{Max: 3})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantRefused expects that calls that are about the tree as it is are refused, with the checkpoints to go back to.
func (c *cut) wantRefused(t *testing.T, s *checkpoint.Store) {
	t.Helper()
	_, err := s.Create(t.Context(), checkpoint.CreateOptions{})
	if !errors.Is(err, checkpoint.ErrUnfinished) || !strings.Contains(err.Error(), string(c.target)) || !strings.Contains(err.Error(), string(c.before)) {
		t.Errorf("making a checkpoint: %v", err)
	}
	if _, err := s.Restore(t.Context(), c.target, checkpoint.RestoreOptions{Paths: []string{"a"}}); !errors.Is(err, checkpoint.ErrUnfinished) {
		t.Errorf("restoring a path: %v", err)
	}
}

// A recovery that fails is not tried again by later processes: what was made meanwhile stays. Whoever makes checkpoints is
// told, until somebody decides.
func TestRecoveryThatFailsIsNotTriedAgain(t *testing.T) {
	for name, decide := range map[string]func(t *testing.T, c *cut, s *checkpoint.Store) (map[string]string, error){
		"restoring everything": func(t *testing.T, c *cut, s *checkpoint.Store) (map[string]string, error) {
			done, err := s.Restore(t.Context(), c.target, checkpoint.RestoreOptions{})
			if _, lost := s.Restore(t.Context(), done.Before.ID, checkpoint.RestoreOptions{}); lost != nil || readFiles(t, c.root)["new"] != "work" {
				t.Errorf("the work is lost: %v", lost)
			}
			return map[string]string{"a": "1", "b": "work", "new": "work"}, err
		},
		"removing what it was to restore": func(t *testing.T, c *cut, s *checkpoint.Store) (map[string]string, error) {
			return map[string]string{"a": "1", "b": "work", "new": "work"}, s.Remove(t.Context(), c.target)
		},
		"removing what was before": func(t *testing.T, c *cut, s *checkpoint.Store) (map[string]string, error) {
			return map[string]string{"a": "1", "b": "work", "new": "work"}, s.Remove(t.Context(), c.before)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCut(t)
			if err := c.next(t).Recover(t.Context()); !errors.Is(err, checkpoint.ErrUnfinished) || !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Fatalf("recovering: %v", err)
			}
			for path, text := range c.whole { // now it could be completed
				overwrite(t, path, text)
			}
			work := map[string]string{"b": "work", "new": "work"}
			writeFiles(t, c.root, work)
			s := c.next(t)
			if err := s.Recover(t.Context()); err != nil || s.Interrupted() {
				t.Errorf("the next recovery: %v", err)
			}
			work["a"] = "1"
			if diff := cmp.Diff(work, readFiles(t, c.root)); diff != "" {
				t.Errorf("a recovery has changed what was made meanwhile: %s", diff)
			}
			c.wantRefused(t, s)
			want, err := decide(t, c, s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.next(t).Create(t.Context(), checkpoint.CreateOptions{}); err != nil {
				t.Errorf("then making a checkpoint: %v", err)
			}
			if diff := cmp.Diff(want, readFiles(t, c.root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A recovery that its caller ends has not failed: nobody has used the tree yet.
func TestRecoveryThatIsEndedGoesOnLater(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1"}, checkpoint.Options{})
	c := &cut{root: root, store: filepath.Join(filepath.Dir(root), "store"), target: create(t, s).ID}
	writeFiles(t, root, map[string]string{"a": "2"})
	c.journal(t, c.target, create(t, s).ID)
	late := c.next(t)
	if err := late.Recover(endedContext{t.Context()}); !errors.Is(err, context.Canceled) || !late.Interrupted() {
		t.Errorf("ending it: %v", err)
	}
	if err := c.next(t).Recover(t.Context()); err != nil || readFiles(t, root)["a"] != "1" {
		t.Errorf("it has %q, %v", readFiles(t, root)["a"], err)
	}
}

// A restore that cannot go on is undone, and if that cannot be either it leaves nothing that a later process would act on.
func TestRestoreThatCannotGoOnIsUndone(t *testing.T) {
	for name, spoilBoth := range map[string]bool{"undone": false, "not even that": true} {
		t.Run(name, func(t *testing.T) {
			spoil := func() {}
			root, s := newTree(t, map[string]string{"a": "1", "z": "1"}, checkpoint.Options{Protected: func(path string) error {
				if path == "z" {
					spoil()
				}
				return nil
			}})
			c := &cut{root: root, store: filepath.Join(filepath.Dir(root), "store")}
			if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, "further")); err != nil { // for which a restore reads the directory again
				t.Fatal(err)
			}
			c.target = create(t, s).ID
			spoiled := c.packs(t)
			for _, name := range []string{"a", "further"} {
				if err := os.Remove(filepath.Join(root, name)); err != nil {
					t.Fatal(err)
				}
			}
			after := map[string]string{"a": "2", "further": "3", "z": "2"}
			writeFiles(t, root, after)
			spoil = func() {
				spoil = func() {}
				if spoilBoth {
					spoiled = c.packs(t)
				}
				damage(t, spoiled)
			}
			_, err := s.Restore(t.Context(), c.target, checkpoint.RestoreOptions{})
			if !errors.Is(err, checkpoint.ErrCorrupt) || errors.Is(err, checkpoint.ErrUnfinished) != spoilBoth || s.Interrupted() {
				t.Errorf("restoring: %v, and there is a journal: %v", err, s.Interrupted())
			}
			if diff := cmp.Diff(after, readFiles(t, root)); !spoilBoth && diff != "" {
				t.Error(diff)
			}
			if _, err := s.Create(t.Context(), checkpoint.CreateOptions{}); errors.Is(err, checkpoint.ErrUnfinished) != spoilBoth {
				t.Errorf("then making a checkpoint: %v", err)
			}
		})
	}
}

// An endedContext has ended just after somebody waited for its turn.
type endedContext struct{ context.Context }

func (endedContext) Err() error            { return context.Canceled }
func (endedContext) Done() <-chan struct{} { return nil }
