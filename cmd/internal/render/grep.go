package render

import (
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/podagent/podagent/pkg/fsops"
)

// Grep prints the results of one search.
type Grep struct {
	// Out gets the lines, Err what could not be searched or was left out.
	Out, Err io.Writer
	// JSON prints results as JSON lines.
	JSON bool
	// Context says that there may be context lines: groups of lines that are
	// not adjacent are separated.
	Context bool
	// Counts prints how many lines of a file match, where files are reported.
	Counts bool
	// NoNumbers leaves out the numbers of lines. Column adds the column of the
	// first match, from 1, and Offset where the line begins in its file, both
	// in bytes.
	NoNumbers, Column, Offset bool
	// Heading prints the path once above a file's lines, not in each of them.
	Heading bool
	// Color paints paths, numbers and matches.
	Color bool
	// Named are the paths that were named to be searched: if one is binary from its
	// beginning, that is said.
	Named []string
}

// All prints the results up to the first error. Files that cannot be searched
// are only said and make it [ErrIncomplete]. It returns [ErrNothing] if no line
// matched.
func (g *Grep) All(results iter.Seq2[fsops.GrepResult, error]) error {
	terminal := IsTerminal(g.Out)
	p := grepPrinter{Grep: g, out: writer{out: g.Out, atOnce: bool(terminal)}, terminal: terminal}
	defer p.out.end()
	found, complete := false, true
	for result, err := range results {
		if err != nil {
			return &SearchError{err}
		}
		if err := p.print(result); err != nil {
			return err
		}
		switch result.Kind {
		case fsops.GrepMatch, fsops.GrepFile:
			found = true
		case fsops.GrepFileError:
			complete = false
		}
	}
	if err := p.out.end(); err != nil {
		return err
	}
	return ended(found, complete)
}

// A grepPrinter prints single results, and knows the last line that it
// printed.
type grepPrinter struct {
	*Grep
	out      writer
	terminal Terminal
	path     string
	name     string // path as it is printed
	line     int64  // 0 if there was none
}

func (p *grepPrinter) print(r fsops.GrepResult) error {
	if r.Kind == fsops.GrepFileError {
		say(p.Err, r.Err.Error())
	}
	if p.JSON {
		return p.out.json(grepJSON(r, p.Counts))
	}
	switch r.Kind {
	case fsops.GrepMatch, fsops.GrepContext:
		return p.out.print(func(text []byte) []byte { return p.lines(text, r) })
	case fsops.GrepFile:
		return p.out.print(func(text []byte) []byte { return p.file(text, r) })
	case fsops.GrepBinary:
		if r.Offset > 0 {
			say(p.Err, fmt.Sprintf("%s: binary from byte %d on, which was not searched", r.Path, r.Offset))
		} else if slices.Contains(p.Named, r.Path) {
			say(p.Err, r.Path+": binary file was not searched")
		}
	case fsops.GrepDone:
		if r.Stats.Truncated {
			say(p.Err, "the limit was reached: more matches were left out")
		}
	}
	return nil
}

// jsonResult is a result of grep as JSON.
type jsonResult struct {
	Type   string   `json:"type"`
	Path   Text     `json:"path,omitempty"`
	Line   int64    `json:"line_number,omitempty"`
	Offset *int64   `json:"absolute_offset,omitempty"`
	Lines  *Text    `json:"lines,omitempty"`
	Cut    int64    `json:"cut,omitempty"`
	Spans  [][2]int `json:"submatches,omitempty"`
	Count  *int64   `json:"count,omitempty"`
	Error  string   `json:"error,omitempty"`

	Files     *int64 `json:"files,omitempty"`
	Matches   *int64 `json:"matches,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// grepTypes are the kinds of results as JSON names them.
var grepTypes = map[fsops.GrepKind]string{
	fsops.GrepMatch:         "match",
	fsops.GrepContext:       "context",
	fsops.GrepFileError:     "error",
	fsops.GrepBinary:        "binary",
	fsops.GrepFileTruncated: "file_truncated",
	fsops.GrepFile:          "file",
	fsops.GrepDone:          "summary",
}

func grepJSON(r fsops.GrepResult, counts bool) jsonResult {
	out := jsonResult{Type: grepTypes[r.Kind], Path: Text(r.Path), Cut: r.Cut}
	switch r.Kind {
	case fsops.GrepMatch, fsops.GrepContext:
		text := Text(r.Text)
		out.Line, out.Offset, out.Lines = r.Line, &r.Offset, &text
	case fsops.GrepBinary:
		out.Offset = &r.Offset
	case fsops.GrepFile:
		if counts {
			out.Count = &r.Count
		}
	case fsops.GrepFileError:
		out.Error = r.Err.Error()
	case fsops.GrepDone:
		out.Files, out.Matches, out.Truncated = &r.Stats.Files, &r.Stats.Matches, r.Stats.Truncated
	}
	for _, s := range r.Spans {
		out.Spans = append(out.Spans, [2]int{s.Start, s.End})
	}
	return out
}
