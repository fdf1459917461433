package render

import (
	"errors"
	"io/fs"

	"github.com/podagent/podagent/pkg/fsops"
)

// jsonResult is a result of grep, or the reason why a file was skipped, as JSON.
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
}

// jsonSummary is the statistics of a search as JSON.
type jsonSummary struct {
	Type      string `json:"type"`
	Files     int64  `json:"files"`
	Matches   int64  `json:"matches"`
	Binary    int64  `json:"binary"`
	Shortened int64  `json:"shortened"`
	Truncated bool   `json:"truncated,omitempty"`
}

// grepTypes are the JSON names of the kinds of results.
var grepTypes = map[fsops.GrepKind]string{
	fsops.GrepMatch:   "match",
	fsops.GrepContext: "context",
	fsops.GrepFile:    "file",
}

func grepJSON(r fsops.GrepResult, counts bool) jsonResult {
	out := jsonResult{Type: grepTypes[r.Kind], Path: Text(r.Path), Cut: r.Cut}
	switch r.Kind {
	case fsops.GrepMatch, fsops.GrepContext:
		text := Text(r.Text)
		out.Line, out.Offset, out.Lines = r.Line, &r.Offset, &text
	case fsops.GrepFile:
		if counts {
			out.Count = &r.Count
		}
	}
	for _, s := range r.Spans {
		out.Spans = append(out.Spans, [2]int{s.Start, s.End})
	}
	return out
}

func skippedJSON(err error) jsonResult {
	out := jsonResult{Type: "error", Error: err.Error()}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		out.Path = Text(of.Path)
	}
	if binary, ok := errors.AsType[*fsops.BinaryError](err); ok {
		out.Type, out.Offset = "binary", &binary.Offset
	}
	return out
}
