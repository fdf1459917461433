package fsops

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A globSet is a list of globs to include or exclude files by.
type globSet []fileGlob

// A fileGlob is one of them, as a .gitignore file would have it: one without a slash
// is matched against base names, others against whole relative paths, as is one that
// begins with a slash. One that ends with a slash matches directories alone.
type fileGlob struct {
	pattern    string
	whole, dir bool
}

// newGlobSet checks the globs.
func newGlobSet(globs []string) (globSet, error) {
	var s globSet
	for _, glob := range globs {
		var g fileGlob
		pattern, rooted := strings.CutPrefix(glob, "/")
		pattern, g.dir = strings.CutSuffix(pattern, "/")
		for _, p := range []string{glob, pattern} { // of what its author wrote, if that is at fault
			if err := checkGlob(p); err != nil {
				return nil, err
			}
		}
		g.pattern, g.whole = oneRunePerByte(pattern), rooted || strings.Contains(pattern, "/")
		s = append(s, g)
	}
	return s, nil
}

// below returns globs for the files that a list selects, in which one that ends with
// a slash stands for all that is in such a directory.
func below(globs []string) []string {
	var all []string
	for _, glob := range globs {
		if dir, ok := strings.CutSuffix(glob, "/"); ok && dir != "" {
			if !strings.Contains(dir, "/") {
				dir = "**/" + dir
			}
			glob = dir + "/**/*" // and not dir itself, which a file may be
		}
		all = append(all, glob)
	}
	return all
}

func (s globSet) empty() bool { return len(s) == 0 }

// match reports whether one of the globs matches the relative path of a file, or of a
// directory.
func (s globSet) match(rel string, dir bool) bool {
	if s.empty() {
		return false
	}
	rel = oneRunePerByte(rel)
	base := path.Base(rel)
	for _, glob := range s {
		name := base
		if glob.whole {
			name = rel
		}
		if (dir || !glob.dir) && doublestar.MatchUnvalidated(glob.pattern, name) {
			return true
		}
	}
	return false
}
