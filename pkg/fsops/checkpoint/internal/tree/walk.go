package tree

import (
	"fmt"
	"iter"
	"maps"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// A Walk finds out what objects a checkpoint consists of, from its root on: directories before what is in
// them. It believes nothing: the directories may be forged.
type Walk struct {
	// trees are the directories that were named so far, files the contents.
	trees map[object.Hash]*node
	files map[object.Hash]struct{}

	todoTrees, todoFiles []object.Hash
	top                  *node
	memory               int64 // what a scan would take for the directories that were read
}

// A node is a directory's object.
type node struct {
	depth    int   // at which it was found first
	memory   int64 // what a scan would take for it; -1 until it was read
	children []*node

	// height and total are about all that is below it, once they are counted: how deep that is, and what a scan would
	// take for it, which counts each directory as often as it is there.
	height int
	total  int64
}

// NewWalk returns a walk that begins with Begin.
func NewWalk() *Walk {
	return &Walk{trees: map[object.Hash]*node{}, files: map[object.Hash]struct{}{}}
}

// Begin names the root.
func (w *Walk) Begin(h object.Hash) error {
	top, err := w.dir(h, 0)
	w.top = top
	return err
}

func (w *Walk) dir(h object.Hash, depth int) (*node, error) {
	if n, ok := w.trees[h]; ok {
		return n, nil
	}
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: it is more than %d directories deep", object.ErrTooLarge, MaxDepth)
	}
	n := &node{depth: depth, memory: -1, total: -1}
	w.trees[h] = n
	w.todoTrees = append(w.todoTrees, h)
	return n, nil
}

// Done reports whether Next has returned everything that is known so far.
func (w *Walk) Done() bool { return len(w.todoTrees)+len(w.todoFiles) == 0 }

// DirsLeft reports whether Next returns a directory.
func (w *Walk) DirsLeft() bool { return len(w.todoTrees) > 0 }

// SkipContents has Next return none of the contents that are known so far.
func (w *Walk) SkipContents() { w.todoFiles = nil }

// Dirs returns the directories that are known so far.
func (w *Walk) Dirs() iter.Seq[object.Hash] { return maps.Keys(w.trees) }

// Contents returns the contents of files that are known so far.
func (w *Walk) Contents() iter.Seq[object.Hash] { return maps.Keys(w.files) }

// Next returns an object that it has not returned before. If it is a directory, its text is to be given to Take.
func (w *Walk) Next() (h object.Hash, isDir bool) {
	from := &w.todoFiles
	if isDir = len(w.todoTrees) > 0; isDir {
		from = &w.todoTrees
	}
	h = (*from)[0]
	*from = (*from)[1:]
	return h, isDir
}

// read reports whether the text of a directory was taken.
func (w *Walk) read(h object.Hash) bool {
	n := w.trees[h]
	return n != nil && n.memory >= 0
}

// Names reports whether an object is one of the checkpoint's, as far as that is known.
func (w *Walk) Names(h object.Hash) bool {
	_, file := w.files[h]
	return file || w.trees[h] != nil
}

// Take takes the text of a directory, and learns what it names.
func (w *Walk) Take(h object.Hash, text []byte) error {
	if w.trees[h] == nil || w.read(h) {
		return nil
	}
	n := w.trees[h]
	n.memory = 0
	return Each(text, func(e *Entry) error {
		takes := int64(EntryMemory + len(e.Name) + len(e.Target))
		n.memory += takes
		if w.memory += takes; w.memory > MaxMemory {
			return errTooMany
		}
		switch e.Kind {
		case Directory:
			child, err := w.dir(e.Hash, n.depth+1)
			n.children = append(n.children, child)
			return err
		case Regular:
			if _, ok := w.files[e.Hash]; !ok {
				w.files[e.Hash] = struct{}{}
				w.todoFiles = append(w.todoFiles, e.Hash)
			}
		}
		return nil
	})
}

// errTooMany says that a checkpoint has more than one can be made of.
var errTooMany = fmt.Errorf("%w: its files with their names take more than %d MiB of memory", object.ErrTooLarge, MaxMemory>>20)

// Check returns an error if what was found is beyond the bounds of a tree: directories may be in several places.
func (w *Walk) Check() error {
	_, err := w.count(w.top, 0)
	return err
}

// count counts what is in a directory and below it.
func (w *Walk) count(n *node, depth int) (total int64, err error) {
	if n.total >= 0 && depth+n.height <= MaxDepth {
		return n.total, nil
	}
	if depth > MaxDepth || n.total >= 0 {
		return 0, fmt.Errorf("%w: it is more than %d directories deep", object.ErrTooLarge, MaxDepth)
	}
	total = n.memory
	for _, child := range n.children {
		below, err := w.count(child, depth+1)
		if err != nil {
			return 0, err
		}
		if total += below; total > MaxMemory {
			return 0, errTooMany
		}
		n.height = max(n.height, child.height+1)
	}
	n.total = total
	return total, nil
}
