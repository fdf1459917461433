package render

import (
	"bufio"
	"fmt"
	"io"
	"iter"

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
}

// All prints the results up to the first error. It returns [ErrNothing] if no
// line matched.
func (g *Grep) All(results iter.Seq2[fsops.GrepResult, error]) error {
	out := bufio.NewWriter(g.Out)
	defer out.Flush()
	p := grepPrinter{Grep: g, out: out, terminal: IsTerminal(g.Out)}
	found := false
	for result, err := range results {
		if err == nil {
			err = p.print(result)
		}
		if err != nil {
			return err
		}
		found = found || result.Kind == fsops.GrepMatch
	}
	return orNothing(found, out.Flush())
}

// A grepPrinter prints single results, and knows the last line that it
// printed.
type grepPrinter struct {
	*Grep
	out      io.Writer
	terminal Terminal
	path     string
	line     int64
}

func (p *grepPrinter) print(r fsops.GrepResult) error {
	if p.JSON {
		return JSON(p.out, grepJSON(r))
	}
	switch r.Kind {
	case fsops.GrepMatch:
		return p.text(r, ':')
	case fsops.GrepContext:
		return p.text(r, '-')
	case fsops.GrepFileError:
		say(p.Err, r.Err.Error())
	case fsops.GrepFileTruncated:
		say(p.Err, r.Path+": more matches were left out")
	case fsops.GrepDone:
		if r.Stats.Truncated {
			say(p.Err, "the limit was reached: more matches were left out")
		}
	}
	return nil
}

func (p *grepPrinter) text(r fsops.GrepResult, separator byte) error {
	if p.Context && p.line > 0 && (p.path != r.Path || r.Line > p.line+1) {
		if _, err := fmt.Fprintln(p.out, "--"); err != nil {
			return err
		}
	}
	p.path, p.line = r.Path, r.Line
	line := fmt.Appendf(nil, "%s%c%d%c%s", p.terminal.Name(r.Path), separator, r.Line, separator, r.Text)
	if r.Cut > 0 {
		line = fmt.Appendf(line, " [... %d more bytes]", r.Cut)
	}
	_, err := p.out.Write(p.terminal.Text(append(line, '\n')))
	return err
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
	Error  string   `json:"error,omitempty"`

	Files     *int64 `json:"files,omitempty"`
	Matches   *int64 `json:"matches,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

var kinds = map[fsops.GrepKind]string{
	fsops.GrepMatch:         "match",
	fsops.GrepContext:       "context",
	fsops.GrepFileError:     "error",
	fsops.GrepBinary:        "binary",
	fsops.GrepFileTruncated: "file_truncated",
	fsops.GrepDone:          "summary",
}

func grepJSON(r fsops.GrepResult) jsonResult {
	out := jsonResult{Type: kinds[r.Kind], Path: Text(r.Path), Cut: r.Cut}
	switch r.Kind {
	case fsops.GrepMatch, fsops.GrepContext:
		text := Text(r.Text)
		out.Line, out.Offset, out.Lines = r.Line, &r.Offset, &text
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
