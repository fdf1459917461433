package watch

// A holder holds events back for a moment and joins those of one path, by
// the rules of [fsops.FS.Watch].
type holder struct {
	events []heldEvent
	paths  map[string]heldPath
	// waiting counts the events that wait for a new name.
	waiting int
}

// A heldEvent is an event whose paths are absolute. One without an Op was
// joined with another.
type heldEvent struct {
	Event
	// waiting says that the file has left Path, and that its new name may still
	// come; windows counts the windows since then. dir is the directory that has
	// left, nil for a file.
	waiting bool
	windows int
	dir     *treeDir
}

// A heldPath says with which held events of a path later ones may be joined. The
// numbers are indexes, plus one.
type heldPath struct {
	created       bool
	writes, chmod int
}

// add holds an event.
func (h *holder) add(e heldEvent) {
	p := h.paths[e.Path]
	switch {
	case e.Op == Write && (p.created || p.writes > 0), e.Op == Chmod && (p.created || p.chmod > 0):
		return
	case e.Op == Write:
		p.writes = len(h.events) + 1
	case e.Op == Chmod:
		p.chmod = len(h.events) + 1
	case e.Op == Remove:
		h.drop(p.writes)
		h.drop(p.chmod)
		p = heldPath{}
	default:
		p = heldPath{created: e.Op == Create}
	}
	if e.waiting {
		h.waiting++
	}
	h.events = append(h.events, e)
	if h.paths == nil {
		h.paths = map[string]heldPath{}
	}
	h.paths[e.Path] = p
}

// drop takes out the event with the index i-1.
func (h *holder) drop(i int) {
	if i > 0 {
		h.events[i-1].Op = 0
	}
}

// find returns the renaming of an old name that still waits, nil if there is none.
func (h *holder) find(old string) *heldEvent {
	for i := len(h.events) - 1; i >= 0; i-- {
		if e := &h.events[i]; e.waiting && e.Path == old {
			return e
		}
	}
	return nil
}

// renamed makes a waiting event the renaming to a path.
func (h *holder) renamed(e *heldEvent, path string) {
	h.waiting--
	e.waiting, e.dir = false, nil
	e.From, e.Path = e.Path, path
	h.paths[path] = heldPath{}
}

// gone makes a waiting event a removal: the file has left what is watched.
func (h *holder) gone(e *heldEvent) {
	h.waiting--
	e.waiting, e.dir = false, nil
	e.Op = Remove
}

// take returns the events to give now: all, or those before the first that still
// waits for its new name.
func (h *holder) take(all bool) []heldEvent {
	for i := range h.events {
		e := &h.events[i]
		if !e.waiting {
			continue
		}
		if e.windows++; e.windows < pairWindows && !all {
			return h.split(i)
		}
		h.gone(e)
	}
	return h.split(len(h.events))
}

// split takes the first n events out.
func (h *holder) split(n int) []heldEvent {
	first, rest := h.events[:n:n], h.events[n:]
	h.events, h.waiting = nil, 0
	clear(h.paths)
	for _, e := range rest {
		if e.Op != 0 {
			h.add(e)
		}
	}
	return first
}
