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

// Env is what a call of a tool has around it.
type Env struct {
	// Sandbox is where files are and commands run.
	Sandbox *launcher.Sandbox
	// Workdir is where relative paths start; empty means the sandbox's own.
	Workdir string
	// State is the session's, as it was when the call, or its batch, began.
	State State
	// Secrets are for the environment of commands that the tool starts, and
	// for what the tool reaches by itself.
	Secrets *secret.Set
	// ExecID is that of the call, for the one command that the tool runs.
	ExecID string
	// Output gets what may be shown while the call lasts, and is redacted; nil
	// if nobody looks.
	Output io.Writer

	redactor   *secret.Redactor
	kept       *keptOutputs
	background *background
}

// Path returns the path in the sandbox that a model means by name; the workdir
// if it is empty.
func (e *Env) Path(name string) string {
	if e.Workdir == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(e.Workdir, name)
}

// quote returns what a model said, as it stands in an error: without secrets
// before it is cut.
func (e *Env) quote(text string) string { return quote(e.redactor.Redact(text)) }

// name returns the path that a model said, as it stands in an error.
func (e *Env) name(path string) string {
	if path == "" {
		path = e.Workdir
		if path == "" {
			return "the working directory"
		}
	}
	return strconv.Quote(cut(e.redactor.Redact(path), maxPath))
}

// markerNote says that a text which was written has in it what stands for a
// secret where a model reads one, and that the secret itself is not there;
// empty if that is not so.
func (e *Env) markerNote(text string) string {
	for _, name := range e.Secrets.Names() {
		if marker := secret.Marker(name); strings.Contains(text, marker) {
			return fmt.Sprintf("(it has %s literally now: that stands for a secret in what you read, and is not replaced by it in what you write. "+
				"Commands have the secret as $%s)", marker, name)
		}
	}
	return ""
}

// environment is that of commands: so that programs print plain text and wait
// for no key, then the tool's own, then the secrets.
func (e *Env) environment(own []string) []string {
	env := append([]string{"TERM=dumb", "PAGER=cat", "GIT_PAGER=cat"}, own...)
	return append(env, e.Secrets.Env()...)
}

// State is what the tools of a session tell each other, by keys of their own.
// It does not change.
type State struct{ values map[string]any }

// Get returns the value of a key, and whether there is one.
func (s State) Get(key string) (any, bool) {
	value, ok := s.values[key]
	return value, ok
}

// All returns the keys and their values, in no order.
func (s State) All() iter.Seq2[string, any] { return maps.All(s.values) }

// with returns the state with changes, of which the later win.
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
