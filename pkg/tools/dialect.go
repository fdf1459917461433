package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
)

// dialect is how a model knows the tools of this package: their names and
// parameters, and the words in which they answer. What the tools do is the same in
// all dialects.
type dialect struct {
	name  string
	forms []form // none for a tool that is as its Spec says
	voice voice
}

// dialects are all that there are, the default first. To add one, write its forms,
// and a voice that embeds another and differs where it must.
var dialects = []*dialect{&ownDialect, &claudeCode}

var ownDialect = dialect{name: "podagent", voice: ownVoice{}}

// voice says to a model what came of the operations of the tools.
type voice interface {
	// lines shows the lines of a text file, of which there may be none.
	lines(env *Env, in readInput, l fsops.Lines) Result
	// wrote says that a file was written.
	wrote(in writeInput, w fsops.WriteResult) string
	// edited says that a file was edited, and refused why it was not.
	edited(env *Env, in editInput, r fsops.EditResult) string
	refused(env *Env, in editInput, r refusal) string
	// paths shows the paths that match a pattern.
	paths(env *Env, in globInput, found *globbed) Result
	// matches returns what shows the results of a search.
	matches(env *Env, in grepInput) matches
	// missing says that a path is not there. offer names what is.
	missing(env *Env, doing, name, offer string) string
	// ran says how a command in the foreground ended.
	ran(c ranCommand) Result
	// started, followed and stopped are for commands in the background.
	started(id string) string
	followed(f followedCommand) string
	stopped(id string) string
}

// form is the form of a tool of this package in a dialect.
type form struct {
	tool                     string // its own name
	name, title, description string
	parameters               []parameter
	fixed                    map[string]any // members of the tool's own input that the model does not choose
}

// parameter is a parameter of a form.
type parameter struct {
	name        string // what the model calls it
	own         string // the member of the tool's own input that it sets; "" if it is for the host alone
	schema      string // its JSON Schema, but for the description
	description string
	required    bool
	as          func(json.RawMessage) json.RawMessage // converts a value; nil if it stays the same
}

// Dialects returns the names that [Options].Dialect can have, the default first.
func Dialects() []string {
	var names []string
	for _, d := range dialects {
		names = append(names, d.name)
	}
	return names
}

// dialectOf returns the dialect of this name.
func dialectOf(name string) (*dialect, error) {
	if name == "" {
		return dialects[0], nil
	}
	for _, d := range dialects {
		if d.name == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("there is no dialect %q of the tools; the dialects are %s", name, strings.Join(Dialects(), ", "))
}

// formOf returns the form of a tool; nil for one that is as its Spec says. Tools of
// hosts are, even if they embed one of this package.
func (d *dialect) formOf(tool Tool) *form {
	if isOurs(tool) {
		return d.form(tool.Spec().Name)
	}
	return nil
}

// isOurs reports whether a tool is one of this package that has a form in dialects.
func isOurs(tool Tool) bool {
	switch tool.(type) {
	case Read, *Read, Bash, *Bash, BashOutput, *BashOutput, BashKill, *BashKill,
		Edit, *Edit, Write, *Write, Glob, *Glob, Grep, *Grep:
		return true
	}
	return false
}

// form returns the form of the tool of this package that has this name itself.
func (d *dialect) form(tool string) *form {
	if i := slices.IndexFunc(d.forms, func(f form) bool { return f.tool == tool }); i >= 0 {
		return &d.forms[i]
	}
	return nil
}

// spec returns the spec of a tool in this form.
func (f *form) spec(tool Tool) Spec {
	spec := tool.Spec()
	times := timesOf(tool)
	spec.Name, spec.Title, spec.Description = f.name, f.title, times.Replace(f.description)
	spec.InputSchema = json.RawMessage(times.Replace(string(f.schema())))
	return spec
}

// schema returns the JSON Schema of the input.
func (f *form) schema() json.RawMessage {
	var properties [][]byte
	var required []string
	for _, p := range f.parameters {
		description, _ := json.Marshal(p.description) // a string always can be
		schema := strings.TrimSuffix(p.schema, "}")
		properties = append(properties, fmt.Appendf(nil, `%q: %s, "description": %s}`, p.name, schema, description))
		if p.required {
			required = append(required, p.name)
		}
	}
	names, _ := json.Marshal(required)
	return fmt.Appendf(nil, `{"type": "object", "properties": {%s}, "required": %s, "additionalProperties": false}`,
		bytes.Join(properties, []byte(", ")), names)
}

// The placeholders of forms for the times of Bash, in milliseconds.
const defaultMillis, maxMillis = "DEFAULT_MS", "MAX_MS"

// timesOf returns what replaces the placeholders.
func timesOf(tool Tool) *strings.Replacer {
	most := maxTimeout(0)
	switch b := tool.(type) {
	case Bash:
		most = maxTimeout(b.MaxTimeout)
	case *Bash:
		most = maxTimeout(b.MaxTimeout)
	}
	millis := func(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }
	return strings.NewReplacer(defaultMillis, millis(min(DefaultTimeout, most)), maxMillis, millis(most))
}

// translate returns an input, which fits the schema, in the tool's own terms.
func (f *form) translate(input json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(input, &members) // it fits the schema
	own := map[string]any{}
	for name, value := range f.fixed {
		own[name] = value
	}
	for _, p := range f.parameters {
		value, ok := members[p.name]
		switch {
		case !ok || p.own == "":
		case p.as != nil:
			own[p.own] = p.as(value)
		default:
			own[p.own] = value
		}
	}
	input, _ = json.Marshal(own)
	return input
}
