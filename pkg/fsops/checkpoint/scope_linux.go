package checkpoint

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A scope is what of a tree is to be restored: what is at some paths and below. The zero scope is
// everything.
type scope []string

// newScope returns the scope of some paths, which are in the tree, from its root. Others are [fs.ErrInvalid], and too many
// are [ErrTooLarge].
func newScope(paths []string) (s scope, err error) {
	size, all := 0, false
	for _, p := range paths {
		size += len(p)
		p = path.Clean(p)
		all = all || p == "."
		if p != "." && !tree.IsPath(p) {
			return nil, fmt.Errorf("paths must be in the tree, from its root: %w", fs.ErrInvalid)
		}
		s = append(s, p)
	}
	if len(paths) > maxPaths || size > maxPathBytes {
		return nil, fmt.Errorf("%w: it is of %d paths with %d bytes", ErrTooLarge, len(paths), size)
	}
	if all {
		return nil, nil
	}
	return s, nil
}

// covers reports whether a path is in the scope.
func (s scope) covers(p string) bool {
	for _, root := range s {
		if p == root || strings.HasPrefix(p, root+"/") {
			return true
		}
	}
	return len(s) == 0
}

// reaches reports whether a path, or something below it, is in the scope.
func (s scope) reaches(p string) bool {
	for _, root := range s {
		if strings.HasPrefix(root, p+"/") {
			return true
		}
	}
	return s.covers(p)
}
