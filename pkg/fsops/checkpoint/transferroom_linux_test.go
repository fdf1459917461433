package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A transfer that finds the disk full takes nothing from another one that goes on. What is gone is asked for again, and a
// checkpoint that Commit has returned is there.
func TestTransferWithoutRoomHarmsNoOther(t *testing.T) {
	_, from := newTree(t, map[string]string{"a": "of the first"}, checkpoint.Options{})
	_, other := newTree(t, map[string]string{"b": string(noise(900 << 10))}, checkpoint.Options{})
	first, second := create(t, from), create(t, other)
	disk := smallDisk(t, "size=4m")
	root := filepath.Join(disk, "tree")
	to, err := checkpoint.Open(filepath.Join(disk, "store"), root, checkpoint.Options{})
	if err = errors.Join(err, os.Mkdir(root, 0o755)); err != nil {
		t.Fatal(err)
	}
	x, err := from.Send(t.Context(), first.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := to.Receive(t.Context(), first.ID, x.Manifest(), checkpoint.ReceiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fetch := func() {
		t.Helper()
		for wants := r.Wants(); len(wants) > 0; wants = r.Wants() {
			if err := x.Objects(t.Context(), wants, func(p []checkpoint.Part) error { return r.Take(t.Context(), p) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	fetch() // everything, but it is not committed yet
	full := filepath.Join(root, "full")
	fill(t, full)
	if _, _, err := transfer(t.Context(), other, to, second.ID, checkpoint.ReceiveOptions{}); !errors.Is(err, checkpoint.ErrNoRoom) {
		t.Fatalf("the second transfer: %v", err)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	c, done, err := r.Commit(t.Context())
	if err == nil && !done {
		fetch()
		c, done, err = r.Commit(t.Context())
	}
	r.Close() // which forgets what is in no sealed pack
	if err != nil || !done {
		t.Fatalf("the first transfer: %v, %v", done, err)
	}
	if _, err := to.Populate(t.Context(), c.ID); err != nil {
		t.Errorf("the checkpoint of the first transfer: %v", err)
	}
}
