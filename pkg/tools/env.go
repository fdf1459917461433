package tools

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// Env is the environment of a call of a tool.
type Env struct {
	// Sandbox has the files and runs the commands.
	Sandbox *launcher.Sandbox
	// Workdir is the directory of relative paths; empty means the sandbox's
	// workdir.
	Workdir string
	// State is the session's state when the call, or its batch, began.
	State State
	// Secrets are for the environment of commands that the tool starts, and for
	// services that the tool uses itself.
	Secrets *secret.Set
	// ExecID is the call's exec id, for the one command that the tool runs.
	ExecID string
	// Output shows text while the call lasts, redacted; nil if nobody watches.
	Output io.Writer

	redactor   *secret.Redactor
	kept       *keptOutputs
	background *background
	speaks     voice // nil for the tools' own
}

// voice says what came of the operations of the tools of this package.
func (e *Env) voice() voice {
	if e.speaks == nil {
		return ownVoice{}
	}
	return e.speaks
}

// ownVoice is the voice of this package's own dialect.
type ownVoice struct{}

// Path returns the path in the sandbox for a name from a model. An empty name
// means the workdir.
func (e *Env) Path(name string) string {
	if e.Workdir == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(e.Workdir, name)
}

// fromWorkdir returns a path relative to the working directory, if it lies in there and
// the directory is known.
func (e *Env) fromWorkdir(name string) string {
	workdir := e.Workdir
	if e.Sandbox != nil && !path.IsAbs(workdir) && path.IsAbs(name) {
		workdir = path.Join(e.Sandbox.Workdir, workdir)
	}
	if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(workdir, "/")+"/"); ok && workdir != "" {
		return rest
	}
	return name
}

// quote returns a text from a model, quoted for an error. It redacts secrets
// before it cuts the text.
func (e *Env) quote(text string) string { return quote(e.redactor.Redact(text)) }

// name returns a path from a model, quoted for an error.
func (e *Env) name(path string) string {
	if path == "" {
		path = e.Workdir
		if path == "" {
			return "the working directory"
		}
	}
	return strconv.Quote(cut(e.redactor.Redact(path), maxPath))
}

// markerNote returns a note if a written text contains the placeholder that a
// model sees in place of a secret: the file now has the placeholder.
func (e *Env) markerNote(text string) string {
	for _, name := range e.Secrets.Names() {
		if marker := secret.Marker(name); strings.Contains(text, marker) {
			return fmt.Sprintf("(it now contains %s literally: that is the placeholder of a secret in what you read, and is not replaced in what you write. "+
				"Commands have the secret as $%s)", marker, name)
		}
	}
	return ""
}

// environment returns the environment of commands: variables that make programs
// print plain text without a pager, then the tool's own, then the secrets.
func (e *Env) environment(own []string) []string {
	env := append([]string{"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat"}, own...)
	return append(env, e.Secrets.Env()...)
}

// State holds values that the tools of a session share, by key. It is immutable.
type State struct{ values map[string]any }

// Get returns the value of a key, and whether the key has one.
func (s State) Get(key string) (any, bool) {
	value, ok := s.values[key]
	return value, ok
}

// All returns the keys and their values, in no order.
func (s State) All() iter.Seq2[string, any] { return maps.All(s.values) }

// with returns the state with changes. Later changes win.
func (s State) with(changes ...map[string]any) State {
	values := maps.Clone(s.values)
	if values == nil {
		values = map[string]any{}
	}
	for _, c := range changes {
		maps.Copy(values, c)
	}
	return State{values}
}
