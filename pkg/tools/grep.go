package tools

import (
	"context"
	"encoding/json"
	"fmt"

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
	found := &grepListing{env: env, context: in.Context, limit: in.Limit}
	for r, err := range env.Sandbox.Grep(ctx, in.Pattern, in.options(env)) {
		if err == nil {
			if found.take(r); found.full {
				break
			}
			continue
		}
		if bad := badPattern(env, err, "It is RE2's syntax for pattern, a glob for glob; a backslash makes a special character stand for itself."); bad != nil {
			return *bad, nil
		}
		return failed(ctx, env, "search in", in.Path, err)
	}
	return found.end(), nil
}

func (in grepInput) options(env *Env) fsops.GrepOptions {
	opts := fsops.GrepOptions{
		IgnoreCase: in.CaseSensitive != nil && !*in.CaseSensitive,
		Before:     in.Context, After: in.Context, Limit: in.Limit,
		Hidden: true, Sort: true, MaxLine: maxGrepText,
	}
	if path := env.Path(in.Path); path != "" {
		opts.Paths = []string{path}
	}
	if in.Glob != "" {
		opts.Include = []string{in.Glob}
	}
	return opts
}

// grepListing turns the results of a search into lines of text.
type grepListing struct {
	listing
	env            *Env
	context, limit int
	path           string // of the last line
	line           int64
	binary         int
	cut            bool // a line was too long
}

func (g *grepListing) take(r fsops.GrepResult) {
	switch r.Kind {
	case fsops.GrepMatch, fsops.GrepContext:
		g.show(r)
	case fsops.GrepFileError:
		g.skip(r.Path, reason(r.Err))
	case fsops.GrepBinary:
		if r.Offset > 0 {
			g.skip(r.Path, fmt.Sprintf("it is binary from byte %d on, which was not searched", r.Offset))
		} else {
			g.binary++
		}
	case fsops.GrepDone:
		if r.Stats.Truncated {
			g.note("these are the first %s: there are more. Make the pattern narrower, or raise limit", count(g.limit, "match"))
		}
	}
}

// show adds a line. If lines are missing before it, it adds hyphens first.
func (g *grepListing) show(r fsops.GrepResult) {
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
	g.add(fmt.Sprintf("%s%s%d%s %s", r.Path, sep, r.Line, sep, text))
}

func (g *grepListing) end() Result {
	if g.cut {
		g.note("of a long line you see the first %d bytes, and a match may come after them: use Bash with grep -o for that", maxGrepText)
	}
	if g.binary > 0 {
		g.note("%s left out", count(g.binary, "binary file"))
	}
	return g.result("no lines match")
}
