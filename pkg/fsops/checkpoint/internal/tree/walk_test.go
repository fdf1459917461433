package tree

import (
	"errors"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// Many directories may name one that is empty: each is small to send, and together they take memory without end.
func TestWhatArrivesTakesNoMoreThanAScan(t *testing.T) {
	top, child := object.Hash{1}, object.Hash{2}
	text := Entries{{Name: "a", Kind: Directory, Mode: 0o755, Hash: child}}.Encode(nil)
	for _, left := range []int64{EntryMemory + 1, EntryMemory} {
		w := NewWalk()
		w.memory = MaxMemory - left
		err := errors.Join(w.Begin(top), w.Take(top, text))
		if fits := left > EntryMemory; fits && err != nil || !fits && !errors.Is(err, object.ErrTooLarge) {
			t.Errorf("with room for %d bytes: %v", left, err)
		}
	}
}
