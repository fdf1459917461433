package checkpoint

import (
	"crypto/rand"
	"path"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// omitted is what a look at the tree leaves out.
type omitted struct {
	globs globs.Set
	// staged begins the names of the files that a restore has in the tree until they get their own, which are
	// never left out. It is empty for whoever restores nothing.
	staged string
}

// omit returns what globs leave out, but for what the restore with a token stages, if there is one.
func omit(list []string, token string) (o omitted, err error) {
	if token != "" {
		o.staged = stagedPrefix + token + "-"
	}
	o.globs, err = excluded(list)
	return o, err
}

func (o omitted) match(p string, dir bool) bool {
	return o.globs.Match(p, dir) && !o.isStaged(path.Base(p))
}

// isStaged reports whether a file is one that the restore has staged, as its name tells. One whose name begins alike is
// like any other.
func (o omitted) isStaged(name string) bool {
	return o.staged != "" && strings.HasPrefix(name, o.staged)
}

// newName returns a name for a file to stage, also where an earlier process has left some.
func (o omitted) newName() string { return o.staged + newToken() }

const (
	stagedPrefix = ".podagent-restore-"
	tokenLength  = 10
)

// newToken returns what tells the files that one restore stages from all others.
func newToken() string { return strings.ToLower(rand.Text()[:tokenLength]) }

// isToken reports whether newToken could have returned a text.
func isToken(text string) bool {
	return len(text) == tokenLength && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
