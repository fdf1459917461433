package render

import (
	"errors"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// Globs is a repeatable flag, for package flag and for pflag: a glob of the files
// to search, or, after an exclamation mark, of the files to skip.
type Globs fsops.GrepOptions

// Set adds a glob.
func (g *Globs) Set(s string) error {
	glob, exclude := strings.CutPrefix(s, "!")
	switch {
	case glob == "":
		return errors.New("there is no pattern in it")
	case exclude:
		g.Exclude = append(g.Exclude, glob)
	default:
		g.Include = append(g.Include, glob)
	}
	return nil
}

// String returns nothing: the flag has no default.
func (g *Globs) String() string { return "" }

// Type names the flag's value.
func (g *Globs) Type() string { return "GLOB" }
