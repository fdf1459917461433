package render

import (
	"fmt"
	"io"

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

	path string
	line int64
}

// Print prints one result.
func (g *Grep) Print(r fsops.GrepResult) error {
	if g.JSON {
		return JSON(g.Out, grepJSON(r))
	}
	switch r.Kind {
	case fsops.GrepMatch:
		return g.text(r, ':')
	case fsops.GrepContext:
		return g.text(r, '-')
	case fsops.GrepFileError:
		_, err := fmt.Fprintln(g.Err, r.Err)
		return err
	case fsops.GrepFileTruncated:
		_, err := fmt.Fprintf(g.Err, "%s: more matches were left out\n", r.Path)
		return err
	case fsops.GrepDone:
		if r.Stats.Truncated {
			_, err := fmt.Fprintln(g.Err, "the limit was reached: more matches were left out")
			return err
		}
	}
	return nil
}

func (g *Grep) text(r fsops.GrepResult, separator byte) error {
	if g.Context && g.line > 0 && (g.path != r.Path || r.Line > g.line+1) {
		if _, err := fmt.Fprintln(g.Out, "--"); err != nil {
			return err
		}
	}
	g.path, g.line = r.Path, r.Line
	line := fmt.Appendf(nil, "%s%c%d%c%s", r.Path, separator, r.Line, separator, r.Text)
	if r.Cut > 0 {
		line = fmt.Appendf(line, " [... %d more bytes]", r.Cut)
	}
	_, err := g.Out.Write(append(line, '\n'))
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
