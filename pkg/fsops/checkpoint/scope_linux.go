package checkpoint

import (
	"path"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A scope is what of a tree is to be restored: what is at some paths and below. The zero scope is
// everything.
type scope []string

func newScope(paths []string) (s scope, ok bool) {
	for _, p := range paths {
		p = path.Clean(p)
		if p == "." {
			return nil, true
		}
		if !tree.IsPath(p) {
			return nil, false
		}
		s = append(s, p)
	}
	return s, true
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
