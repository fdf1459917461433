package gateway

import (
	"errors"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/fsops"
)

func (g *Gateway) searchOperations() {
	sort := param("query", "sort", huma.TypeString, "the order: by name, by time with the latest first, or as they are found")
	sort.Schema.Enum = []any{"name", "time", "none"}
	pattern := param("query", "pattern", huma.TypeString, "the pattern, in doublestar's syntax, such as src/**/*.go")
	pattern.Required = true
	g.raw(huma.Operation{
		OperationID: "glob", Method: http.MethodGet, Path: sandboxRoot + "/glob", Summary: "Find files by their names", Description: searchDoc,
		Parameters: []*huma.Param{
			pattern, sort,
			param("query", "dir", huma.TypeString, "where a relative pattern starts: the workdir unless said otherwise"),
			param("query", "limit", huma.TypeInteger, "how many at most"),
			param("query", "ignore", huma.TypeBoolean, "leave out .git, and what .gitignore files and their like exclude"),
			param("query", "no_hidden", huma.TypeBoolean, "leave out names that begin with a dot"),
		},
		Responses: map[string]*huma.Response{"200": {Description: "a line for each, and one at the end", Content: g.lineOf(reflect.TypeFor[GlobLine]())}},
	}, (*rawCall).glob)
	g.rawWith(huma.Operation{
		OperationID: "grep", Method: http.MethodPost, Path: sandboxRoot + "/grep", Summary: "Find lines in files", Description: searchDoc,
		RequestBody: &huma.RequestBody{Required: true, Content: bodyOf(jsonType, g.schema(reflect.TypeFor[GrepRequest]()))},
		Responses:   map[string]*huma.Response{"200": {Description: "a line for each, and one at the end", Content: g.lineOf(reflect.TypeFor[GrepLine]())}},
	}, (*rawCall).readGrep, (*rawCall).grep)
}

const searchDoc = "The answer comes in lines, as they are found. " + linesDoc +
	"A search that fails after the first line is cut off, without one of type end."

// GlobLine is a line of the answer to glob.
type GlobLine struct {
	Type      string   `json:"type" enum:"file,directory,symlink,fifo,socket,device,end" doc:"of the file; the last line is the end"`
	Path      string   `json:"path,omitempty"`
	PathOther []byte   `json:"path_base64,omitempty" doc:"in place of path, if that is not UTF-8"`
	Truncated bool     `json:"truncated,omitempty" doc:"at the end: there are more"`
	Skipped   []string `json:"skipped,omitempty" nullable:"false" doc:"at the end: what could not be read, and why"`
	More      int64    `json:"skipped_more,omitempty" doc:"at the end: how many others could not be read"`
}

var globSorts = map[string]fsops.GlobSort{"": fsops.GlobByName, "name": fsops.GlobByName, "time": fsops.GlobByTime, "none": fsops.GlobUnsorted}

func (c *rawCall) glob() error {
	stats := fsops.GlobStats{}
	o := fsops.GlobOptions{Dir: c.query("dir"), Stats: &stats}
	sort, ok := globSorts[c.query("sort")]
	if !ok {
		return invalid("sort must be name, time or none")
	}
	o.Sort = sort
	limit, err := c.number("limit", maxNumber)
	if err != nil {
		return err
	}
	o.Limit = int(limit)
	if err := c.flags(map[string]*bool{"ignore": &o.Ignore, "no_hidden": &o.NoHidden}); err != nil {
		return err
	}
	defer c.keepLines()()
	end := GlobLine{Type: "end"}
	for m, err := range c.sandbox.Glob(c, c.query("pattern"), o) {
		if end.Skipped, end.More, err = skipped(err); err != nil {
			return err
		}
		if end.Skipped != nil {
			break
		}
		line := GlobLine{Type: fsops.TypeName(m.Type)}
		line.Path, line.PathOther = split(m.Path)
		if err := c.line(line, false); err != nil {
			return err
		}
	}
	end.Truncated = stats.Truncated
	return c.line(end, true)
}

// skipped returns what a search had to skip, if that is what err says, and otherwise err.
func skipped(err error) (reasons []string, more int64, other error) {
	s, ok := errors.AsType[*fsops.SkippedError](err)
	if !ok {
		return nil, 0, err
	}
	for _, reason := range s.Errs {
		reasons = append(reasons, reason.Error())
	}
	return reasons, s.More, nil
}

// GrepRequest says what to search, and how.
type GrepRequest struct {
	Pattern    string   `json:"pattern" doc:"a regular expression, in RE2's syntax"`
	Paths      []string `json:"paths,omitempty" doc:"the files and directories to search: the workdir unless said otherwise"`
	Fixed      bool     `json:"fixed,omitempty" doc:"the pattern is text, not a regular expression"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Word       bool     `json:"word,omitempty" doc:"find only matches with no word character beside them"`
	Multiline  bool     `json:"multiline,omitempty" doc:"a match may span lines"`
	Report     string   `json:"report,omitempty" enum:"lines,files,counts" doc:"what to report of each file: lines unless said otherwise"`
	Include    []string `json:"include,omitempty" doc:"search only files that match one of these globs"`
	Exclude    []string `json:"exclude,omitempty" doc:"and none that match one of these"`
	Before     int      `json:"before,omitempty" minimum:"0" maximum:"1000" doc:"how many lines of context before each match"`
	After      int      `json:"after,omitempty" minimum:"0" maximum:"1000" doc:"and after it"`
	MaxPerFile int      `json:"max_per_file,omitempty" minimum:"0" doc:"how many matching lines of a file at most"`
	Limit      int      `json:"limit,omitempty" minimum:"0" doc:"how many matching lines, or files, at most"`
	Hidden     bool     `json:"hidden,omitempty" doc:"search names that begin with a dot, too"`
	NoIgnore   bool     `json:"no_ignore,omitempty" doc:"search what .gitignore files and their like exclude, too"`
	Sort       bool     `json:"sort,omitempty" doc:"give the files in the order of their paths"`
}

var grepReports = map[string]fsops.GrepReport{"": fsops.GrepLines, "lines": fsops.GrepLines, "files": fsops.GrepFiles, "counts": fsops.GrepCounts}

// GrepLine is a line of the answer to grep.
type GrepLine struct {
	Type      string `json:"type" enum:"match,context,file,end" doc:"the last line is the end"`
	Path      string `json:"path,omitempty"`
	PathOther []byte `json:"path_base64,omitempty" doc:"in place of path, if that is not UTF-8"`
	Line      int64  `json:"line,omitempty" doc:"the line's number, from 1"`
	Offset    *int64 `json:"offset,omitempty" doc:"where the line begins in the file, in bytes"`
	Text      string `json:"text,omitempty" doc:"the line without its end"`
	TextOther []byte `json:"text_base64,omitempty" doc:"in place of text, if that is not UTF-8"`
	Cut       int64  `json:"cut,omitempty" doc:"how many bytes the text lacks"`
	Count     *int64 `json:"count,omitempty" doc:"how many lines of the file match"`

	Files     *int64   `json:"files,omitempty" doc:"at the end: how many files were searched"`
	Matches   *int64   `json:"matches,omitempty" doc:"at the end: how many lines, or files, matched"`
	Binary    int64    `json:"binary,omitempty" doc:"at the end: how many files were left out because they are binary"`
	Shortened int64    `json:"shortened,omitempty" doc:"at the end: how many files have more matches than max_per_file"`
	Truncated bool     `json:"truncated,omitempty" doc:"at the end: there are more"`
	Skipped   []string `json:"skipped,omitempty" nullable:"false" doc:"at the end: what could not be read, and why"`
	More      int64    `json:"skipped_more,omitempty" doc:"at the end: how many others could not be read"`
}

// readGrep reads the body of grep.
func (c *rawCall) readGrep() (Detail, error) {
	c.grepped = &GrepRequest{}
	err := c.body(c.grepped)
	return Detail{Paths: c.grepped.Paths}, err
}

func (c *rawCall) grep() error {
	in := c.grepped
	report, ok := grepReports[in.Report]
	if !ok {
		return invalid("report must be lines, files or counts")
	}
	defer c.keepLines()()
	stats := fsops.GrepStats{}
	end := GrepLine{Type: "end"}
	for r, err := range c.sandbox.Grep(c, in.Pattern, fsops.GrepOptions{
		Paths: in.Paths, Fixed: in.Fixed, IgnoreCase: in.IgnoreCase, Word: in.Word, Multiline: in.Multiline, Report: report,
		Include: in.Include, Exclude: in.Exclude, Before: in.Before, After: in.After, MaxPerFile: in.MaxPerFile,
		Limit: in.Limit, Hidden: in.Hidden, NoIgnore: in.NoIgnore, Sort: in.Sort, Stats: &stats,
	}) {
		if end.Skipped, end.More, err = skipped(err); err != nil {
			return err
		}
		if end.Skipped != nil {
			break
		}
		if err := c.line(grepLine(r, report == fsops.GrepCounts), false); err != nil {
			return err
		}
	}
	end.Files, end.Matches, end.Binary, end.Shortened, end.Truncated = &stats.Files, &stats.Matches, stats.Binary, stats.Shortened, stats.Truncated
	return c.line(end, true)
}

func grepLine(r fsops.GrepResult, counts bool) GrepLine {
	line := GrepLine{Cut: r.Cut}
	line.Path, line.PathOther = split(r.Path)
	switch r.Kind {
	case fsops.GrepFile:
		line.Type = "file"
		if counts {
			line.Count = &r.Count
		}
		return line
	case fsops.GrepContext:
		line.Type = "context"
	default:
		line.Type = "match"
	}
	line.Line, line.Offset = r.Line, &r.Offset
	line.Text, line.TextOther = split(string(r.Text))
	return line
}
