package fsops

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"unsafe"
)

// A globSorter sorts matches. If there are more than are wanted, or more than fit into
// its memory, it keeps those that come first.
type globSorter struct {
	order GlobSort
	// limit is how many are wanted; 0 and less is no limit.
	limit int
	// most is how many bytes the items may take, size how many they take.
	most, size int
	items      globHeap
	// more says that some were left out, because they come after the others.
	more bool
	// after, if set, is the last item given before: only later ones count.
	after *globItem
}

func newGlobSorter(order GlobSort) *globSorter {
	return &globSorter{order: order, most: maxGlobSorted, items: globHeap{order: order}}
}

// compare orders matches as the caller wants them.
func (o GlobSort) compare(a, b *globItem) int {
	if o == GlobByTime {
		if later := cmp.Or(cmp.Compare(b.sec, a.sec), cmp.Compare(b.nsec, a.nsec)); later != 0 {
			return later
		}
	}
	return strings.Compare(a.path, b.path)
}

// begin starts anew, for the items after those that end returned.
func (s *globSorter) begin(limit int) {
	s.limit, s.size, s.more, s.items.list = limit, 0, false, nil
}

// add keeps the item if it is one of the first.
func (s *globSorter) add(item globItem) {
	if s.after != nil && s.order.compare(&item, s.after) <= 0 {
		return
	}
	if s.more && s.order.compare(&item, &s.items.list[0]) > 0 {
		return
	}
	s.size += item.size()
	if s.more {
		heap.Push(&s.items, item)
	} else {
		s.items.list = append(s.items.list, item)
	}
	for s.full() {
		if !s.more {
			heap.Init(&s.items)
			s.more = true
		}
		last := heap.Pop(&s.items).(globItem)
		s.size -= last.size()
	}
}

// full reports whether there is one item too many.
func (s *globSorter) full() bool {
	n := len(s.items.list)
	return s.limit > 0 && n > s.limit || s.size > s.most && n > 1
}

// size is what an item takes in memory, in bytes.
func (i *globItem) size() int { return int(unsafe.Sizeof(*i)) + len(i.path) }

// end returns the items in order.
func (s *globSorter) end() []globItem {
	slices.SortFunc(s.items.list, func(a, b globItem) int { return s.order.compare(&a, &b) })
	if n := len(s.items.list); n > 0 {
		s.after = &s.items.list[n-1]
	}
	return s.items.list
}

// A globHeap has the item that comes last at its top (container/heap).
type globHeap struct {
	order GlobSort
	list  []globItem
}

func (h *globHeap) Len() int           { return len(h.list) }
func (h *globHeap) Less(i, j int) bool { return h.order.compare(&h.list[i], &h.list[j]) > 0 }
func (h *globHeap) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *globHeap) Push(x any)         { h.list = append(h.list, x.(globItem)) }

func (h *globHeap) Pop() any {
	n := len(h.list) - 1
	last := h.list[n]
	h.list[n] = globItem{}
	h.list = h.list[:n]
	return last
}
