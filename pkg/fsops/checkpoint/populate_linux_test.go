package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A file that somebody makes in an empty tree before Populate has looked at it is not the store's to remove or replace.
func TestPopulateLosesNothingThatIsMadeMeanwhile(t *testing.T) {
	for _, name := range []string{"x", "another"} {
		var meanwhile func()
		root, s := plot(t, map[string]string{"x": "checkpoint"}, checkpoint.Options{Mapped: func() map[uint64]bool {
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
		meanwhile = func() { sow(t, root, made) }
		if _, err := s.Populate(t.Context(), c.ID); !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("populating: %v", err)
		}
		if diff := cmp.Diff(made, reap(t, root)); diff != "" {
			t.Error(diff)
		}
		meanwhile = nil
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Populate(t.Context(), c.ID); err != nil {
			t.Errorf("once it is empty: %v", err)
		}
		if got := reap(t, root)["x"]; got != "checkpoint" {
			t.Errorf("it has %q", got)
		}
	}
}
