package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path"

	"github.com/podagent/podagent/pkg/fsops"
)

// Glob finds files by a pattern for their paths. It sorts them by name, so that
// the same tree gives the same answer. It leaves out .git and the files that
// .gitignore excludes, unless nothing else matches.
type Glob struct{}

const globSchema = `{
	"type": "object",
	"properties": {
		"pattern": {"type": "string", "minLength": 1, "description": "Pattern such as **/*.go, src/{a,b}/*.txt, or an absolute one."},
		"cwd": {"type": "string", "description": "Directory that the pattern starts in; the working directory by default."},
		"limit": {"type": "integer", "minimum": 1, "default": 1000, "description": "How many paths to return at most."}
	},
	"required": ["pattern"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Glob) Spec() Spec {
	return Spec{
		Name: "Glob", Title: "Find files",
		Description: "Finds files and directories whose path matches a pattern, sorted by name: * matches within a name, ** any directories, {a,b} either, [a-z] a character. " +
			"Paths are relative to cwd; those of directories end with a slash. Names that begin with a dot count. " +
			"What .gitignore excludes is left out, unless nothing else matches.",
		InputSchema: json.RawMessage(globSchema), ReadOnly: true, Idempotent: true,
	}
}

type globInput struct {
	Pattern string `json:"pattern"`
	Cwd     string `json:"cwd"`
	Limit   int    `json:"limit"`
	// Files leaves out directories, and ByTime sorts by the time of change.
	Files  bool `json:"files"`
	ByTime bool `json:"by_time"`
}

// globbed is what matches a pattern.
type globbed struct {
	listing
	truncated bool // by the limit of matches
	ignored   bool // all of it is what is usually left out
}

// Call implements Tool.
func (Glob) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[globInput]("Glob", input)
	if problem != nil {
		return *problem, nil
	}
	if in.Limit == 0 {
		in.Limit = DefaultGlobLimit
	}
	found, err := in.find(ctx, env, true)
	if err == nil && found.text.Len() == 0 {
		found, err = in.find(ctx, env, false)
		found.ignored = true
	}
	if err != nil {
		if bad := badPattern(env, err, "Write a backslash before a character of *?[{ that stands for itself."); bad != nil {
			return *bad, nil
		}
		return failed(ctx, env, "search in", in.directory(err), err)
	}
	return env.voice().paths(env, in, found), nil
}

func (ownVoice) paths(_ *Env, in globInput, found *globbed) Result {
	if found.truncated {
		found.note("these are the first %d: there are more. Make the pattern narrower, or raise limit", in.Limit)
	}
	if found.ignored && found.text.Len() > 0 {
		found.note("all of these are excluded by .gitignore, or in .git")
	}
	return found.result("(no files match)")
}

// directory returns the directory that an error is about, as the model named it.
func (in globInput) directory(err error) string {
	if of, ok := errors.AsType[*fs.PathError](err); ok && in.Cwd == "" {
		return of.Path
	}
	return in.Cwd
}

// find finds at most Limit matches.
func (in globInput) find(ctx context.Context, env *Env, ignore bool) (*globbed, error) {
	found, n := &globbed{}, 0
	for m, err := range env.Sandbox.Glob(ctx, in.Pattern, in.options(env, ignore)) {
		if skipped, ok := errors.AsType[*fsops.SkippedError](err); ok {
			found.skipAll(skipped)
			break
		}
		if err != nil {
			return found, err
		}
		if in.Files && m.Type.IsDir() {
			continue
		}
		if n++; n > in.Limit {
			found.truncated = true
			break
		}
		if !found.add(in.name(env, m)) {
			break
		}
	}
	return found, nil
}

// options returns the options of the search. It finds one match more than Limit, so
// that one sees whether there are more; with directories to leave out, any number.
func (in globInput) options(env *Env, ignore bool) fsops.GlobOptions {
	opts := fsops.GlobOptions{Dir: env.Path(in.Cwd), Limit: in.Limit + 1, Ignore: ignore, Sort: fsops.GlobByName}
	if in.Files {
		opts.Limit = 0
	}
	if in.ByTime {
		opts.Sort = fsops.GlobByTime
	}
	return opts
}

// name returns the path of a match as the model is told it.
func (in globInput) name(env *Env, m fsops.GlobMatch) string {
	switch {
	case !in.Files:
		return m.Path + slashOf(m.Type)
	case path.IsAbs(m.Path):
		return env.fromWorkdir(m.Path)
	}
	return env.fromWorkdir(path.Join(in.Cwd, m.Path))
}

// slashOf returns the slash that paths of directories end with.
func slashOf(kind fs.FileMode) string {
	if kind.IsDir() {
		return "/"
	}
	return ""
}
