package fsops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
	"github.com/podagent/podagent/pkg/fsops/internal/linere"
)

// Grep searches files for lines that match a regular expression of RE2's
// syntax, which Go's package regexp documents. Each line is matched by itself:
// ^ and $ are its ends, and nothing matches the newline. A carriage return in
// front of the newline is part of the Text, but not of what is matched, unless
// the pattern names it; so $ matches before it. With Multiline a file is
// matched as a whole, where ^ and $ are the ends of its lines.
//
// Directories are searched with all that is below them, except for what the
// options leave out. Symbolic links are followed where opts.Paths names them,
// and elsewhere with Follow; only regular files are ever opened. A
// .gitignore file counts also where there is no repository, as do those of the
// parent directories up to the repository's root, or else to the workdir. What
// opts.Paths names is searched even if it is hidden or ignored; Include and
// Exclude apply to it too.
//
// A text that begins with the byte order mark of UTF-16 is searched as UTF-8;
// that of UTF-8 is no part of the text. A file with a NUL byte in its first
// 256 KiB is left out, and counted by opts.Stats; if opts.Paths names it, it is
// skipped ([ErrBinary]). At a later NUL byte the search of a file ends with the
// line before, and the rest is skipped (ErrBinary), as is what a line has beyond
// 16 MiB. A file under /proc ends where reading it would block; if opts.Paths names it,
// the rest is skipped ([ErrNotRegular]). With Sort, files are opened by their paths, so
// that one beyond the system's limit of a path is skipped.
//
// What cannot be searched is skipped, as is a file of ignore rules that can't be read, or
// that would make the search hold more than 1 MiB or 50,000 rules at a time (EFBIG). One
// [*SkippedError] at the end lists all of it.
//
// The results of one file come together, the files in no order unless opts.Sort
// asks for one. The first match arrives at once; later ones may be held back for
// some milliseconds, to arrive together.
//
// Every error is the loop's last value. An invalid pattern or glob ([*PatternError]),
// a number that is negative or too large (EINVAL), and the end of ctx end the search
// with an error that names the pattern. A path that does not exist ends it too, if it
// is the only one; otherwise it is skipped. When the loop ends, so has all work; when
// ctx ends, the loop does within some ten milliseconds.
//
// Up to four files are searched at once. Files with lines over a megabyte are searched
// one at a time, and all searches of an FS share a bound for them, so one may wait.
//
// Which lines match in which files is the same as for ripgrep (rg --crlf
// --no-require-git), but for this:
//
//   - \w, \d, \s, \b and Word know ASCII alone, as with rg --no-unicode, and
//     . and classes take invalid UTF-8 for U+FFFD.
//   - Nothing matches the carriage return at a line's end unless the pattern
//     names it; \A and \z are the ends of the line.
//   - A binary file is never searched, even if opts.Paths names it, and the
//     lines before its NUL byte are not if that is in the first 256 KiB.
//   - .git is left out with what is ignored, not with what is hidden. Include
//     selects among what is searched anyway: it brings back nothing that is ignored
//     or hidden.
//   - The offsets in a file with UTF-8's byte order mark count that mark.
func (f *FS) Grep(ctx context.Context, pattern string, opts GrepOptions) iter.Seq2[GrepResult, error] {
	return oneByOne(ctx, f.GrepBatches(ctx, pattern, opts))
}

// GrepBatches is Grep for a caller that hands on many results at once. They come in
// slices of at least one result, and of about 128 KiB at most unless a single result
// is larger. A slice is valid until the loop goes on; what its results refer to may
// be kept.
func (f *FS) GrepBatches(ctx context.Context, pattern string, opts GrepOptions) iter.Seq2[[]GrepResult, error] {
	return func(yield func([]GrepResult, error) bool) {
		g, err := f.newGrep(pattern, opts)
		if err == nil {
			err = g.run(ctx, func(batch []GrepResult) bool { return yield(batch, nil) })
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// A grep is one search.
type grep struct {
	pattern string
	opts    GrepOptions
	re      *linere.Regexp
	include globs.Set
	exclude globs.Set
	roots   []*grepRoot
	workers int
	// longLines and blocks are shared by all searches of the FS.
	longLines *budget
	blocks    *blockPool
	spare     grepBatches
}

// newGrep checks everything that the caller gave.
func (f *FS) newGrep(pattern string, opts GrepOptions) (*grep, error) {
	if opts.Stats != nil {
		*opts.Stats = GrepStats{}
	}
	g := &grep{pattern: pattern, opts: opts, longLines: f.longLines, blocks: &f.blocks}
	// There is one more than can run at once: when one waits for the system, or for
	// another worker, it goes on.
	g.workers = min(runtime.GOMAXPROCS(0)+1, maxGrepWorkers)
	if err := g.compile(); err != nil {
		return nil, pathError("grep", pattern, err)
	}
	if err := f.grepRoots(g); err != nil {
		return nil, err
	}
	return g, nil
}

// compile checks and prepares the pattern and the options.
func (g *grep) compile() error {
	if g.opts.MaxLine == 0 {
		g.opts.MaxLine = maxGrepLine
	}
	err := g.opts.check()
	if err != nil {
		return err
	}
	if g.re, err = compileGrep(g.pattern, g.opts); err != nil {
		return err
	}
	if g.include, err = newGlobSet(globs.Below(g.opts.Include)); err != nil {
		return fmt.Errorf("cannot include files: %w", err)
	}
	if g.exclude, err = newGlobSet(g.opts.Exclude); err != nil {
		return fmt.Errorf("cannot exclude files: %w", err)
	}
	return nil
}

// check returns an error of class EINVAL for numbers that mean nothing.
func (o GrepOptions) check() error {
	switch {
	case o.Before < 0 || o.After < 0 || o.Before > maxGrepContext || o.After > maxGrepContext:
		return fmt.Errorf("cannot give %d and %d context lines (at most %d): %w", o.Before, o.After, maxGrepContext, syscall.EINVAL)
	case o.Limit < 0 || o.MaxPerFile < 0:
		return fmt.Errorf("limit is negative: %w", syscall.EINVAL)
	case o.MaxLine < 0 || o.MaxLine > maxGrepText:
		return fmt.Errorf("cannot give %d bytes of a line (at most %d): %w", o.MaxLine, maxGrepText, syscall.EINVAL)
	case o.Before*o.MaxLine > maxGrepBefore:
		return fmt.Errorf("cannot give %d context lines of %d bytes (at most %d bytes in all): %w", o.Before, o.MaxLine, maxGrepBefore, syscall.EINVAL)
	case !slices.Contains([]GrepReport{GrepLines, GrepFiles, GrepCounts}, o.Report):
		return fmt.Errorf("unknown report %d: %w", o.Report, syscall.EINVAL)
	}
	return nil
}

// run searches all files, and passes their results on.
func (g *grep) run(ctx context.Context, yield func([]GrepResult) bool) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	tally := &grepTally{opts: &g.opts, yield: yield, ctx: ctx, spare: &g.spare, pause: time.NewTimer(0)}
	defer tally.pause.Stop()
	var err error
	if g.opts.Sort {
		err = g.runSorted(inner, cancel, tally)
	} else {
		err = g.runUnsorted(inner, cancel, tally)
	}
	tally.stats.Truncated = errors.Is(err, errGrepLimit)
	if (err == nil || tally.stats.Truncated) && ctx.Err() == nil {
		err = cmp.Or(tally.flush(), err)
	}
	if g.opts.Stats != nil {
		*g.opts.Stats = tally.stats
	}
	switch {
	case errors.Is(err, errStop):
		return err
	case ctx.Err() != nil:
		return pathError("grep", g.pattern, ctx.Err())
	case err == nil || tally.stats.Truncated:
		return tally.skipped.asError()
	}
	return err
}
