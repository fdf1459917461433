package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// eventText returns "create a", or "rename a -> b".
func eventText(e Event) string {
	op := [...]string{"?", "create", "write", "remove", "rename", "chmod", "overflow"}[e.Op]
	if e.From != "" {
		op += " " + e.From + " ->"
	}
	return op + " " + e.Path
}

// hold holds events. "left a" means that a got another name.
func hold(h *holder, events ...string) {
	ops := map[string]Op{"create": Create, "write": Write, "remove": Remove, "chmod": Chmod, "left": Rename}
	for _, event := range events {
		op, path, _ := strings.Cut(event, " ")
		if from, to, ok := strings.Cut(path, " -> "); ok {
			h.renamed(h.find(from), to)
			continue
		}
		h.add(heldEvent{Event: Event{Op: ops[op], Path: path}, waiting: op == "left"})
	}
}

// taken returns the events at the end of a window.
func taken(h *holder) []string {
	var events []string
	for _, e := range h.take(false) {
		if e.Op != 0 {
			events = append(events, eventText(e.Event))
		}
	}
	return events
}

// This shows which events of one window are joined.
func TestJoinsEventsOfAPath(t *testing.T) {
	for _, tt := range []struct {
		name       string
		held, want []string
	}{
		{
			"writes",
			[]string{"write a", "write b", "write a", "chmod a", "write a", "chmod a"},
			[]string{"write a", "write b", "chmod a"},
		},
		{"writes of a new file", []string{"create a", "write a", "chmod a", "write a"}, []string{"create a"}},
		{"writes before a removal", []string{"write a", "chmod a", "remove a"}, []string{"remove a"}},
		{"a file that comes and goes", []string{"create a", "write a", "remove a"}, []string{"create a", "remove a"}},
		{"a file that goes and comes", []string{"remove a", "create a", "write a"}, []string{"remove a", "create a"}},
		{"a file that is replaced", []string{"create a", "create a"}, []string{"create a", "create a"}},
		{
			"a renaming",
			[]string{"write a", "left a", "rename a -> b", "write b", "write b"},
			[]string{"write a", "rename a -> b", "write b"},
		},
		{
			"a renaming, and a new file with the old name",
			[]string{"left a", "create a", "rename a -> b", "write a", "left a", "rename a -> c"},
			[]string{"rename a -> b", "create a", "rename a -> c"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h holder
			hold(&h, tt.held...)
			if diff := cmp.Diff(tt.want, taken(&h)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The event for the old name waits for the new name, and holds up all events after
// it, but not forever.
func TestWaitsForTheNewName(t *testing.T) {
	var h holder
	hold(&h, "create x", "left a", "write b")
	want := []string{"create x"}
	for range pairWindows - 1 {
		if diff := cmp.Diff(want, taken(&h)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		hold(&h, "write b")
		want = nil
	}
	if diff := cmp.Diff([]string{"remove a", "write b"}, taken(&h)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h.find("a") != nil {
		t.Error("the old name still waits")
	}
}
