package checkpoint_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A file that somebody makes in an empty tree before Populate has looked at it is not the store's to remove or replace.
func TestPopulateLosesNothingThatIsMadeMeanwhile(t *testing.T) {
	for _, name := range []string{"x", "another"} {
		var meanwhile func()
		root, s := newTree(t, map[string]string{"x": "checkpoint"}, checkpoint.Options{Mapped: func() map[uint64]bool {
			if meanwhile != nil {
				meanwhile()
			}
			return nil
		}})
		c := create(t, s)
		if err := os.Remove(filepath.Join(root, "x")); err != nil {
			t.Fatal(err)
		}
		made := map[string]string{name: "the only copy"}
		meanwhile = func() { writeFiles(t, root, made) }
		if _, err := s.Populate(t.Context(), c.ID); !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("populating: %v", err)
		}
		if diff := cmp.Diff(made, readFiles(t, root)); diff != "" {
			t.Error(diff)
		}
		meanwhile = nil
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Populate(t.Context(), c.ID); err != nil {
			t.Errorf("once it is empty: %v", err)
		}
		if got := readFiles(t, root)["x"]; got != "checkpoint" {
			t.Errorf("it has %q", got)
		}
	}
}

// Contents are compared with their hashes when they become files: whoever can write to the store may have changed them since they
// arrived. Then nothing stays in the tree.
func TestPopulateMakesNoFileOfWhatWasChangedSinceItArrived(t *testing.T) {
	for name, populates := range map[string]bool{"compared on arrival": false, "not compared on arrival": true} {
		t.Run(name, func(t *testing.T) { populateTampered(t, checkpoint.ReceiveOptions{Populates: populates}) })
	}
}

func populateTampered(t *testing.T, opts checkpoint.ReceiveOptions) {
	_, from := newTree(t, map[string]string{"run.sh": "echo harmless", "other": "1"}, checkpoint.Options{})
	c := create(t, from)
	root, to := newTree(t, nil, checkpoint.Options{})
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	sender, err := from.Send(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	r, err := to.Receive(t.Context(), c.ID, sender.Manifest(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for !r.Complete() {
		if err := sender.Objects(t.Context(), r.Wants(), func(p []checkpoint.Part) error { return r.Take(t.Context(), p) }); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(filepath.Dir(root), "store", "*", strings.Repeat("[0-9a-f]", 16)))
	if err != nil || len(packs) == 0 {
		t.Fatalf("%q, %v", packs, err)
	}
	for _, pack := range packs {
		text, err := os.ReadFile(pack)
		if err == nil {
			text = bytes.Replace(text, []byte("harmless"), []byte("tampered"), 1)
			err = errors.Join(os.Chmod(pack, 0o600), os.WriteFile(pack, text, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := to.Populate(t.Context(), c.ID); !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), "run.sh") {
		t.Errorf("populating: %v", err)
	}
	if diff := cmp.Diff(map[string]string{}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}
