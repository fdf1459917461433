package render

import (
	"errors"
	"io"
	"iter"

	"github.com/podagent/podagent/pkg/fsops"
)

// Grep prints the results of one search.
type Grep struct {
	// Out gets the lines. Err gets notes about what could not be searched or was left
	// out.
	Out, Err io.Writer
	// JSON prints results as JSON lines.
	JSON bool
	// Context says that there may be context lines: a separator goes between groups
	// of lines that are not adjacent.
	Context bool
	// Counts prints how many lines of a file match, if files are reported.
	Counts bool
	// NoNumbers leaves out the numbers of lines. Column adds the column of the
	// first match, from 1, and Offset where the line begins in its file, both
	// in bytes.
	NoNumbers, Column, Offset bool
	// Heading prints the path once above a file's lines, not in each of them.
	Heading bool
	// Color paints paths, numbers and matches.
	Color bool
	// Stats must be the Stats in the search's options.
	Stats fsops.GrepStats
}

// All prints the results up to the first error. Files that cannot be searched are
// only reported on Err, and make it [ErrIncomplete], unless they are binary. It
// returns [ErrNothing] if no line matched.
func (g *Grep) All(results iter.Seq2[fsops.GrepResult, error]) error {
	terminal := IsTerminal(g.Out)
	p := grepPrinter{Grep: g, out: writer{out: g.Out, atOnce: bool(terminal)}, terminal: terminal}
	defer p.out.end()
	found, incomplete := false, false
	for result, err := range results {
		if skipped, ok := errors.AsType[*fsops.SkippedError](err); ok {
			incomplete = saySkipped(g.Err, skipped)
			if err := p.skipped(skipped); err != nil {
				return err
			}
			break
		}
		if err != nil {
			return &SearchError{err}
		}
		if err := p.print(result); err != nil {
			return err
		}
		found = found || result.Kind != fsops.GrepContext
	}
	if err := p.summary(); err != nil {
		return err
	}
	if err := p.out.end(); err != nil {
		return err
	}
	return ended(found, !incomplete)
}

// A grepPrinter prints single results, and remembers the last line that it printed.
type grepPrinter struct {
	*Grep
	out      writer
	terminal Terminal
	path     string
	name     string // path as it is printed
	line     int64  // 0 if there was none
}

func (p *grepPrinter) print(r fsops.GrepResult) error {
	switch {
	case p.JSON:
		return p.out.json(grepJSON(r, p.Counts))
	case r.Kind == fsops.GrepFile:
		return p.out.print(func(text []byte) []byte { return p.file(text, r) })
	}
	return p.out.print(func(text []byte) []byte { return p.lines(text, r) })
}

// skipped prints the skipped files as JSON.
func (p *grepPrinter) skipped(skipped *fsops.SkippedError) error {
	for _, err := range skipped.Errs {
		if !p.JSON {
			break
		}
		if err := p.out.json(skippedJSON(err)); err != nil {
			return err
		}
	}
	return nil
}

// summary prints the search's statistics as JSON, or else says if there is more.
func (p *grepPrinter) summary() error {
	switch {
	case p.JSON:
		return p.out.json(jsonSummary{"summary", p.Stats.Files, p.Stats.Matches, p.Stats.Binary, p.Stats.Shortened, p.Stats.Truncated})
	case p.Stats.Truncated:
		say(p.Err, "the limit was reached: more matches were left out")
	}
	return nil
}
