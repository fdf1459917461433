package globs

import (
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A Set is a list of globs to include or exclude files by. The zero Set matches
// nothing. It may be used concurrently.
type Set []glob

// A glob selects files as a line of a .gitignore file does. One without a slash is
// matched against base names. Others are matched against whole relative paths, and
// so is one that begins with a slash. One that ends with a slash matches directories
// alone.
type glob struct {
	pattern    string
	whole, dir bool
}

// NewSet returns the set of these globs. One that is not valid is a [*SyntaxError].
func NewSet(globs []string) (Set, error) {
	var s Set
	for _, text := range globs {
		var g glob
		pattern, rooted := strings.CutPrefix(text, "/")
		pattern, g.dir = strings.CutSuffix(pattern, "/")
		for _, p := range []string{text, pattern} { // first the text as it was written, for the error to show
			if err := Check(p); err != nil {
				return nil, err
			}
		}
		g.pattern, g.whole = oneRunePerByte(pattern), rooted || strings.Contains(pattern, "/")
		s = append(s, g)
	}
	return s, nil
}

// Below returns globs for the files that a list selects. In the list, a glob that
// ends with a slash selects everything in such a directory.
func Below(globs []string) []string {
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

// Empty reports whether there is no glob in the set.
func (s Set) Empty() bool { return len(s) == 0 }

// Match reports whether one of the globs matches the relative path of a file, or,
// with dir, of a directory.
func (s Set) Match(rel string, dir bool) bool {
	if s.Empty() {
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
