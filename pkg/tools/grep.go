package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops"
)

// Grep finds lines of files by a regular expression, in the order of the files'
// paths. It searches files whose names begin with a dot. It leaves out .git,
// binary files, and the files that .gitignore excludes.
type Grep struct{}

const grepSchema = `{
	"type": "object",
	"properties": {
		"pattern": {"type": "string", "minLength": 1, "description": "Regular expression of RE2's syntax, matched against each line."},
		"path": {"type": "string", "description": "File or directory to search; the working directory by default."},
		"glob": {"type": "string", "description": "Search only files that match this pattern: *.go by the name, src/**/*.go by the path below the directory that is searched."},
		"case_sensitive": {"type": "boolean", "default": true, "description": "Whether upper and lower case differ."},
		"limit": {"type": "integer", "minimum": 1, "default": 200, "description": "How many matching lines to return at most."},
		"context": {"type": "integer", "minimum": 0, "maximum": 100, "default": 0, "description": "How many lines to show around each match."}
	},
	"required": ["pattern"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Grep) Spec() Spec {
	return Spec{
		Name: "Grep", Title: "Search in files",
		Description: "Finds the lines of files that match a regular expression (RE2: no look-around, no back-references), each as \"path:line: text\"; lines around them have hyphens for the colons. " +
			"Binary files, .git and what .gitignore excludes are left out, unless path names such a thing.",
		InputSchema: json.RawMessage(grepSchema), ReadOnly: true, Idempotent: true,
	}
}

type grepInput struct {
	Pattern       string `json:"pattern"`
	Path          string `json:"path"`
	Glob          string `json:"glob"`
	CaseSensitive *bool  `json:"case_sensitive"`
	Limit         int    `json:"limit"`
	Context       int    `json:"context"`
	grepMore
}

// grepMore is what other dialects can ask for.
type grepMore struct {
	Mode       string   `json:"mode"` // grepContent, grepFiles or grepCount
	Globs      []string `json:"globs"`
	Type       string   `json:"type"`
	IgnoreCase bool     `json:"ignore_case"`
	Multiline  bool     `json:"multiline"`
	Before     int      `json:"before"`
	After      int      `json:"after"`
	Numbers    *bool    `json:"numbers"` // of lines; yes by default
	Only       bool     `json:"only"`    // the matches, not their lines
	// Paged bounds the lines of the answer, of which it leaves out the first Skip,
	// to Head (0: all). Limit does not count then.
	Paged bool `json:"paged"`
	Skip  int  `json:"skip"`
	Head  *int `json:"head_limit"`
}

// The modes of a search.
const (
	grepContent = "content"
	grepFiles   = "files_with_matches"
	grepCount   = "count"
)

// matches shows the results of a search.
type matches interface {
	// show shows a result, and reports whether to go on.
	show(r fsops.GrepResult) bool
	skipAll(skipped *fsops.SkippedError)
	end(stats fsops.GrepStats) Result
}

// Call implements Tool.
func (Grep) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[grepInput]("Grep", input)
	if problem != nil {
		return *problem, nil
	}
	if in.Limit == 0 {
		in.Limit = DefaultGrepLimit
	}
	opts, problem := in.options(env)
	if problem != nil {
		return *problem, nil
	}
	var stats fsops.GrepStats
	opts.Stats = &stats
	pattern, found := in.Pattern, env.voice().matches(env, in)
	if in.Multiline {
		pattern = "(?s)" + pattern
	}
	for r, err := range env.Sandbox.Grep(ctx, pattern, opts) {
		if err == nil {
			if in.wants(r.Path) && !found.show(r) {
				break
			}
			continue
		}
		if skipped, ok := errors.AsType[*fsops.SkippedError](err); ok {
			found.skipAll(skipped)
			break
		}
		if bad := badPattern(env, err, "It is RE2's syntax for pattern, a glob for glob; a backslash makes a special character stand for itself."); bad != nil {
			return *bad, nil
		}
		return failed(ctx, env, "search in", in.Path, err)
	}
	return found.end(stats), nil
}

// options returns the options of the search, or what is wrong with them.
func (in grepInput) options(env *Env) (fsops.GrepOptions, *Result) {
	opts := fsops.GrepOptions{
		IgnoreCase: in.IgnoreCase || in.CaseSensitive != nil && !*in.CaseSensitive,
		Multiline:  in.Multiline, Spans: in.Only, Report: in.report(),
		Before: max(in.Context, in.Before), After: max(in.Context, in.After), Limit: in.Limit,
		Hidden: true, Sort: true, MaxLine: maxGrepText,
	}
	if in.Paged {
		opts.Limit = in.most()
	}
	if where := env.Path(in.Path); where != "" {
		opts.Paths = []string{where}
	}
	if in.Glob != "" {
		opts.Include = []string{in.Glob}
	}
	for _, glob := range in.Globs {
		if not, ok := strings.CutPrefix(glob, "!"); ok {
			opts.Exclude = append(opts.Exclude, not)
		} else {
			opts.Include = append(opts.Include, glob)
		}
	}
	if in.Type != "" {
		globs := fileTypes[in.Type]
		if globs == nil {
			problem := Errorf("unrecognized file type: %s. Use glob, or one of the types %s", env.quote(in.Type), strings.Join(typeNames(), ", "))
			return opts, &problem
		}
		if opts.Include == nil {
			opts.Include = globs
		}
	}
	return opts, nil
}

func (in grepInput) report() fsops.GrepReport {
	switch in.Mode {
	case grepFiles:
		return fsops.GrepFiles
	case grepCount:
		return fsops.GrepCounts
	}
	return fsops.GrepLines
}

// head returns how many lines of the answer the model wants; 0 means all.
func (in grepInput) head() int {
	if in.Head == nil {
		return defaultHead
	}
	return *in.Head
}

// most returns how many matches to look for, so that one sees whether there are more
// than the model wants; 0 means all.
func (in grepInput) most() int {
	if in.head() == 0 || in.Mode == grepCount || in.Type != "" && in.Globs != nil {
		return 0 // counts are of all, and a type and a glob leave out some
	}
	return in.Skip + in.head() + 1
}

// wants reports whether a file is of the type. The search itself knows either types
// or globs.
func (in grepInput) wants(name string) bool {
	return in.Type == "" || in.Globs == nil || slices.ContainsFunc(fileTypes[in.Type], func(glob string) bool {
		ok, _ := path.Match(glob, path.Base(name))
		return ok
	})
}

func (ownVoice) matches(env *Env, in grepInput) matches {
	return &grepListing{env: env, context: in.Context, limit: in.Limit}
}

// grepListing turns the results of a search into lines of text.
type grepListing struct {
	listing
	env            *Env
	context, limit int
	path           string // of the last line
	line           int64
	cut            bool // a line was too long
}

// show adds a line. If lines are missing before it, it adds hyphens first.
func (g *grepListing) show(r fsops.GrepResult) bool {
	if g.context > 0 && g.path != "" && (r.Path != g.path || r.Line != g.line+1) {
		g.text.WriteString("--\n")
	}
	g.path, g.line = r.Path, r.Line
	sep := "-"
	if r.Kind == fsops.GrepMatch {
		sep = ":"
	}
	text := string(r.Text)
	if r.Cut > 0 {
		g.cut = true
		text = fmt.Sprintf("%s… (+%s)", g.env.redactor.RedactHead(text), count(int(r.Cut), "byte"))
	}
	return g.add(fmt.Sprintf("%s%s%d%s %s", r.Path, sep, r.Line, sep, text))
}

func (g *grepListing) end(stats fsops.GrepStats) Result {
	if g.cut {
		g.note("of a long line you see the first %d bytes, and a match may come after them: use Bash with grep -o for that", maxGrepText)
	}
	if stats.Truncated {
		g.note("these are the first %s: there are more. Make the pattern narrower, or raise limit", count(g.limit, "match"))
	}
	if stats.Binary > 0 {
		g.note("%s left out", count(int(stats.Binary), "binary file"))
	}
	return g.result("(no lines match)")
}
