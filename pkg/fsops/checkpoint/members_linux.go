package checkpoint

import "fmt"

// A walk finds out what objects a checkpoint consists of, from its root on: directories before what is in
// them. It believes nothing: the directories may be forged.
type walk struct {
	// trees are the directories that were named so far, files the contents.
	trees map[Hash]*treeNode
	files map[Hash]struct{}

	todoTrees, todoFiles []Hash
	top                  *treeNode
}

// A treeNode is a directory's object.
type treeNode struct {
	depth    int // at which it was found first
	entries  int // in it; -1 until it was read
	children []*treeNode

	// height and total are about all that is below it, once they are counted: how deep that is, and how many entries
	// there are, each as often as it is there.
	height, total int
}

func newWalk() *walk {
	return &walk{trees: map[Hash]*treeNode{}, files: map[Hash]struct{}{}}
}

// root begins with a directory.
func (w *walk) root(h Hash) error {
	top, err := w.dir(h, 0)
	w.top = top
	return err
}

func (w *walk) dir(h Hash, depth int) (*treeNode, error) {
	if n, ok := w.trees[h]; ok {
		return n, nil
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: it is more than %d directories deep", ErrTooLarge, maxDepth)
	}
	n := &treeNode{depth: depth, entries: -1, total: -1}
	w.trees[h] = n
	w.todoTrees = append(w.todoTrees, h)
	return n, nil
}

// done reports whether next has returned everything that is known so far.
func (w *walk) done() bool { return len(w.todoTrees)+len(w.todoFiles) == 0 }

// next returns an object that it has not returned before. If it is a directory, its text is to be given to tree.
func (w *walk) next() (h Hash, isTree bool) {
	from := &w.todoFiles
	if isTree = len(w.todoTrees) > 0; isTree {
		from = &w.todoTrees
	}
	h = (*from)[0]
	*from = (*from)[1:]
	return h, isTree
}

// read reports whether the text of a directory was taken.
func (w *walk) read(h Hash) bool {
	n := w.trees[h]
	return n != nil && n.entries >= 0
}

// names reports whether an object is one of the checkpoint's, as far as that is known.
func (w *walk) names(h Hash) bool {
	_, file := w.files[h]
	return file || w.trees[h] != nil
}

// tree takes the text of a directory.
func (w *walk) tree(h Hash, text []byte) error {
	if w.trees[h] == nil || w.read(h) {
		return nil
	}
	n := w.trees[h]
	n.entries = 0
	return eachEntry(text, func(e *entry) error {
		if n.entries++; n.entries > maxEntries {
			return fmt.Errorf("%w: more than %d files", ErrTooLarge, maxEntries)
		}
		switch e.kind {
		case directory:
			child, err := w.dir(e.hash, n.depth+1)
			n.children = append(n.children, child)
			return err
		case regular:
			if _, ok := w.files[e.hash]; !ok {
				w.files[e.hash] = struct{}{}
				w.todoFiles = append(w.todoFiles, e.hash)
			}
		}
		if len(w.trees)+len(w.files) > maxEntries {
			return fmt.Errorf("%w: more than %d files", ErrTooLarge, maxEntries)
		}
		return nil
	})
}

// check returns an error if what was found is beyond the bounds of a tree: directories may be in several places.
func (w *walk) check() error {
	_, err := w.count(w.top, 0)
	return err
}

// count counts what is in a directory and below it.
func (w *walk) count(n *treeNode, depth int) (total int, err error) {
	if n.total >= 0 && depth+n.height <= maxDepth {
		return n.total, nil
	}
	if depth > maxDepth || n.total >= 0 {
		return 0, fmt.Errorf("%w: it is more than %d directories deep", ErrTooLarge, maxDepth)
	}
	total = n.entries
	for _, child := range n.children {
		below, err := w.count(child, depth+1)
		if err != nil {
			return 0, err
		}
		if total += below; total > maxEntries {
			return 0, fmt.Errorf("%w: more than %d files", ErrTooLarge, maxEntries)
		}
		n.height = max(n.height, child.height+1)
	}
	n.total = total
	return total, nil
}
