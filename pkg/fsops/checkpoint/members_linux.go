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
	memory               int64 // what a scan would take for the directories that were read
}

// A treeNode is a directory's object.
type treeNode struct {
	depth    int   // at which it was found first
	memory   int64 // what a scan would take for it; -1 until it was read
	children []*treeNode

	// height and total are about all that is below it, once they are counted: how deep that is, and what a scan would
	// take for it, which counts each directory as often as it is there.
	height int
	total  int64
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
	n := &treeNode{depth: depth, memory: -1, total: -1}
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
	return n != nil && n.memory >= 0
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
	n.memory = 0
	return eachEntry(text, func(e *entry) error {
		takes := int64(entryMemory + len(e.name) + len(e.target))
		n.memory += takes
		if w.memory += takes; w.memory > maxMemory {
			return errTooMany
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
		return nil
	})
}

// errTooMany says that a checkpoint has more than one can be made of.
var errTooMany = fmt.Errorf("%w: its files with their names take more than %d MiB of memory", ErrTooLarge, maxMemory>>20)

// check returns an error if what was found is beyond the bounds of a tree: directories may be in several places.
func (w *walk) check() error {
	_, err := w.count(w.top, 0)
	return err
}

// count counts what is in a directory and below it.
func (w *walk) count(n *treeNode, depth int) (total int64, err error) {
	if n.total >= 0 && depth+n.height <= maxDepth {
		return n.total, nil
	}
	if depth > maxDepth || n.total >= 0 {
		return 0, fmt.Errorf("%w: it is more than %d directories deep", ErrTooLarge, maxDepth)
	}
	total = n.memory
	for _, child := range n.children {
		below, err := w.count(child, depth+1)
		if err != nil {
			return 0, err
		}
		if total += below; total > maxMemory {
			return 0, errTooMany
		}
		n.height = max(n.height, child.height+1)
	}
	n.total = total
	return total, nil
}
