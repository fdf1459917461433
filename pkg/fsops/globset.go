package fsops

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A globSet is a list of globs to include or exclude files by.
type globSet struct{ names, paths []string }

// newGlobSet checks the globs. One without a slash is matched against base
// names, others against whole relative paths.
func newGlobSet(globs []string) (globSet, error) {
	var s globSet
	for _, glob := range globs {
		if err := checkGlob(glob); err != nil {
			return globSet{}, err
		}
		glob = oneRunePerByte(glob)
		if strings.Contains(glob, "/") {
			s.paths = append(s.paths, glob)
		} else {
			s.names = append(s.names, glob)
		}
	}
	return s, nil
}

func (s globSet) empty() bool { return len(s.names)+len(s.paths) == 0 }

// match reports whether one of the globs matches the relative path.
func (s globSet) match(rel string) bool {
	if s.empty() {
		return false
	}
	rel = oneRunePerByte(rel)
	base := path.Base(rel)
	for _, glob := range s.names {
		if doublestar.MatchUnvalidated(glob, base) {
			return true
		}
	}
	for _, glob := range s.paths {
		if doublestar.MatchUnvalidated(glob, rel) {
			return true
		}
	}
	return false
}
