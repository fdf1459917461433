package tools

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

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
	found := &listing{}
	err := in.find(ctx, env, true, found)
	if err == nil && found.text.Len() == 0 {
		found = &listing{}
		if err = in.find(ctx, env, false, found); found.text.Len() > 0 {
			found.note("all of these are excluded by .gitignore, or in .git")
		}
	}
	if err != nil {
		if bad := badPattern(env, err, "Write a backslash before a character of *?[{ that stands for itself."); bad != nil {
			return *bad, nil
		}
		return failed(ctx, env, "search in", in.directory(err), err)
	}
	return found.result("no files match"), nil
}

// directory returns the directory that an error is about, as the model named it.
func (in globInput) directory(err error) string {
	if of, ok := errors.AsType[*fs.PathError](err); ok && in.Cwd == "" {
		return of.Path
	}
	return in.Cwd
}

func (in globInput) find(ctx context.Context, env *Env, ignore bool, found *listing) error {
	opts := fsops.GlobOptions{Dir: env.Path(in.Cwd), Limit: in.Limit, Ignore: ignore, Sort: fsops.GlobByName}
	for m, err := range env.Sandbox.Glob(ctx, in.Pattern, opts) {
		skipped, ok := err.(*fsops.SkippedError)
		switch {
		case ok:
			found.skip(skippedName(skipped), reason(skipped))
		case err != nil:
			return err
		case m.Truncated:
			found.note("these are the first %d: there are more. Make the pattern narrower, or raise limit", in.Limit)
		case !found.add(m.Path + slashOf(m.Type)):
			return nil
		}
	}
	return nil
}

// slashOf returns the slash that paths of directories end with.
func slashOf(kind fs.FileMode) string {
	if kind.IsDir() {
		return "/"
	}
	return ""
}

func skippedName(skipped *fsops.SkippedError) string {
	if of, ok := errors.AsType[*fs.PathError](skipped.Err); ok {
		return of.Path
	}
	return "a part of the tree"
}
