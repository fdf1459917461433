package render

import (
	"io"

	"github.com/podagent/podagent/pkg/fsops"
)

// GlobFlags are the flags of a search for names.
type GlobFlags struct {
	opts fsops.GlobOptions
	max  number
	sort word
	dir  directory
	null bool
}

// Define defines the flags.
func (f *GlobFlags) Define(flags FlagSet) {
	f.sort = word{"name", []string{"name", "time", "none"}}
	flags.Value(&f.sort, "sort", "", "sort by `name`, by time with the latest first, or not")
	flags.Bool(&f.opts.Ignore, "ignore", "", "leave out .git and what .gitignore files and their like exclude")
	flags.Bool(&f.opts.NoHidden, "no-hidden", "", "leave out names that begin with a dot")
	flags.Value(&f.max, "max", "", "stop after `N` names")
	flags.Value(&f.dir, "directory", "C", "start in `DIR`")
	flags.Bool(&f.null, "null", "0", "end names with NUL instead of a newline")
}

// Options returns the search options of the flags.
func (f *GlobFlags) Options() fsops.GlobOptions {
	opts := f.opts
	opts.Limit, opts.Dir = f.max.n, string(f.dir)
	opts.Sort = map[string]fsops.GlobSort{"name": fsops.GlobByName, "time": fsops.GlobByTime}[f.sort.value]
	return opts
}

// Printer returns the printer of the flags, and makes opts.Stats refer to its
// Stats.
func (f *GlobFlags) Printer(out, err io.Writer, asJSON bool, opts *fsops.GlobOptions) *Glob {
	g := &Glob{Out: out, Err: err, JSON: asJSON, Null: f.null}
	opts.Stats = &g.Stats
	return g
}
