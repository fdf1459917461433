package render

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// GrepFlags are the flags of a search, named as in ripgrep.
type GrepFlags struct {
	opts                   fsops.GrepOptions
	patterns               patterns
	before, after, context number
	perFile, max, columns  number
	files, counts          bool
	numbers, noNumbers     bool
	column, offset         bool
	sort, color            word
}

// Define defines the flags.
func (f *GrepFlags) Define(flags FlagSet) {
	f.sort = word{"none", []string{"none", "path"}}
	f.color = word{"auto", []string{"auto", "always", "never"}}
	f.defineMatching(flags)
	f.defineFiles(flags)
	f.definePrinting(flags)
}

func (f *GrepFlags) defineMatching(flags FlagSet) {
	flags.Value(&f.patterns, "regexp", "e", "search for `PATTERN`, which may begin with a dash; may be repeated")
	flags.Bool(&f.opts.IgnoreCase, "ignore-case", "i", "ignore the case of letters")
	flags.Bool(&f.opts.SmartCase, "smart-case", "S", "ignore the case of letters unless the pattern has a capital one")
	flags.Bool(&f.opts.Fixed, "fixed-strings", "F", "take the pattern as text, not as a regular expression")
	flags.Bool(&f.opts.Word, "word-regexp", "w", "find whole words only")
	flags.Bool(&f.opts.Multiline, "multiline", "U", "let a match span lines")
	flags.Value(&f.perFile, "max-count", "m", "stop after `N` matching lines of each file")
	flags.Value(&f.max, "max", "", "stop after `N` matching lines in all, or files with -l and -c")
}

func (f *GrepFlags) defineFiles(flags FlagSet) {
	flags.Value((*Globs)(&f.opts), "glob", "g", "search only files that match `GLOB`, or skip those that match !GLOB; may be repeated")
	flags.Bool(&f.opts.Hidden, "hidden", "", "also search hidden files and directories")
	flags.Bool(&f.opts.NoIgnore, "no-ignore", "", "also search what .gitignore files and their like exclude")
	flags.Bool(&f.opts.Follow, "follow", "L", "follow symbolic links")
	flags.Value(&f.sort, "sort", "", "give the files in the order of their `path`s, or as they are found, which is faster")
}

func (f *GrepFlags) definePrinting(flags FlagSet) {
	flags.Bool(&f.files, "files-with-matches", "l", "print only the paths of files that match")
	flags.Bool(&f.counts, "count", "c", "print only how many lines match, for each file in which some do")
	flags.Value(&f.after, "after-context", "A", "print `N` lines of context after each match")
	flags.Value(&f.before, "before-context", "B", "print `N` lines of context before each match")
	flags.Value(&f.context, "context", "C", "print `N` lines of context around each match")
	flags.Bool(&f.numbers, "line-number", "n", "print the numbers of lines, which is the default")
	flags.Bool(&f.noNumbers, "no-line-number", "N", "leave out the numbers of lines")
	flags.Bool(&f.column, "column", "", "print the column of a line's first match, in bytes from 1")
	flags.Bool(&f.offset, "byte-offset", "b", "print where each line begins in its file, in bytes")
	flags.Value(&f.columns, "max-columns", "M", "print at most `N` bytes of a line, and how many more there are")
	flags.Value(&f.color, "color", "", "color the output `when`: auto, on a terminal; always; or never")
}

// Search returns the search that flags and arguments describe: a pattern, unless a
// flag has it, and paths.
func (f *GrepFlags) Search(args []string) (pattern string, opts fsops.GrepOptions, err error) {
	opts = f.opts
	switch {
	case len(f.patterns) == 0 && len(args) == 0:
		return "", opts, errors.New("grep needs a pattern")
	case len(f.patterns) == 0:
		pattern, args = args[0], args[1:]
	case len(f.patterns) == 1:
		pattern = f.patterns[0]
	default:
		if pattern, err = f.anyPattern(); err != nil {
			return "", opts, err
		}
		opts.Fixed = false
	}
	opts.Paths = args
	opts.Before, opts.After = f.before.or(f.context), f.after.or(f.context)
	opts.MaxPerFile, opts.Limit, opts.MaxLine = f.perFile.n, f.max.n, f.columns.n
	opts.Sort = f.sort.value == "path"
	switch {
	case f.counts:
		opts.Report = fsops.GrepCounts
	case f.files:
		opts.Report = fsops.GrepFiles
	}
	return pattern, opts, nil
}

// anyPattern returns a regular expression for any of the patterns. Each of them
// must be valid by itself.
func (f *GrepFlags) anyPattern() (string, error) {
	var any []string
	for _, p := range f.patterns {
		if f.opts.Fixed {
			p = regexp.QuoteMeta(p)
		}
		if _, err := syntax.Parse(p, syntax.Perl); err != nil {
			return "", fmt.Errorf("pattern %q is invalid: %w", p, err)
		}
		any = append(any, "(?:"+closeQuote(p)+")")
	}
	return strings.Join(any, "|"), nil
}

// closeQuote ends a \Q quotation that the pattern leaves open.
func closeQuote(pattern string) string {
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, `\`)
		if !found || after == "" {
			return pattern
		}
		rest = after[1:] // the character after the backslash
		if after[0] != 'Q' {
			continue
		}
		if _, rest, found = strings.Cut(rest, `\E`); !found {
			return pattern + `\E`
		}
	}
}

// Printer returns the printer of the flags, and sets the search options that it
// depends on.
func (f *GrepFlags) Printer(out, err io.Writer, asJSON bool, opts *fsops.GrepOptions) *Grep {
	g := &Grep{
		Out: out, Err: err, JSON: asJSON, Context: opts.Before+opts.After > 0, Counts: f.counts,
		NoNumbers: f.noNumbers, Column: f.column, Offset: f.offset,
		Heading: bool(IsTerminal(out)), Color: colored(out, f.color.value),
	}
	opts.Spans = asJSON || g.Column || g.Color
	opts.Stats = &g.Stats
	return g
}
