// Package tools has the tools that an agent host hands to a model, over any
// sandbox. A host has its tools in two lines:
//
//	session := tools.New(sandbox, tools.Options{}, tools.Coding()...)
//	result, err := session.Call(ctx, "Read", json.RawMessage(`{"path": "go.mod"}`))
//
// [Session.Specs] is what the model is told of them. [Session.Batch] makes the
// calls of one message of the model at once: each sees the session's state as it
// was at the beginning, and what they change of it is merged in their order when
// the last has ended.
//
// What it promises:
//
//   - What a model can do something about is a [Result] with IsError, which says
//     what was wrong, what was found, and what to try. An error is for the host:
//     the context ended, the sandbox is lost or cannot be reached.
//   - A limit that was hit is said in the result, with the way to the rest.
//   - Inputs are checked against the tool's schema before the tool sees them:
//     what is unknown, missing or of a wrong type is a result that says so in a
//     sentence. Models send numbers as texts now and then: "10" is taken for 10
//     where an integer or a number is wanted, "true" for true where a boolean
//     is, 10.0 for 10, and null for a parameter that is left out.
//   - Secrets are in the environment of commands only, and in nothing that comes
//     back: results, errors, live output, and the files that keep whole outputs.
//     See package secret for what redaction cannot find. The sandbox itself has
//     them: processes of its user can read each other's environment in /proc,
//     and what a command writes to a file is there as it wrote it.
//   - A tool that panics, or does not end when its context does, fails its call
//     and nothing else.
//
// Tools of one's own are of the same interface as those here, and mix with
// them: [Func] makes one of a function.
package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Tool is something that a model can call. It may be called concurrently.
type Tool interface {
	// Spec says what the tool is. It always returns the same.
	Spec() Spec
	// Call runs the tool. The input is a JSON object that fits the InputSchema;
	// defaults that this names are not filled in. What a model can do something
	// about is a Result with IsError; an error is for the host, and ends the
	// model's turn. A tool ends when ctx does.
	Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error)
}

// Spec describes a tool, to a model and to the hosts of models. The booleans
// are hints as those of the Model Context Protocol.
type Spec struct {
	// Name is what the model calls: 1 to 64 letters, digits, "_" and "-".
	Name string
	// Title is the name for people; empty means Name.
	Title string
	// Description is for the model.
	Description string
	// InputSchema is a JSON Schema of an object. Parameters that it does not
	// name are refused, unless it says additionalProperties.
	InputSchema json.RawMessage
	// ReadOnly says that a call changes nothing.
	ReadOnly bool
	// Destructive says that a call may change or remove what there is, and does
	// not only add to it.
	Destructive bool
	// Idempotent says that the same call again changes nothing more.
	Idempotent bool
	// OpenWorld says that a call may reach beyond the sandbox.
	OpenWorld bool
}

// Coding returns the tools for an agent that changes files: Read, Bash (with
// BashOutput and BashKill), Edit, Write, Glob and Grep.
func Coding() []Tool {
	return []Tool{Read{}, Bash{}, BashOutput{}, BashKill{}, Edit{}, Write{}, Glob{}, Grep{}}
}

// ReadOnly returns the tools for an agent that looks at things: Read, Bash
// (with BashOutput and BashKill), Glob and Grep. Bash can change files all the
// same.
func ReadOnly() []Tool {
	return []Tool{Read{}, Bash{}, BashOutput{}, BashKill{}, Glob{}, Grep{}}
}

// Result is what a model gets back.
type Result struct {
	Content []Content
	// IsError says that the call did not do what was asked for, and the content
	// says why.
	IsError bool
	// State is what changes in the session's state. It is the host's: it is not
	// shown to the model, and not redacted.
	State map[string]any
}

// Content is a text, or with a MediaType the bytes of something else.
type Content struct {
	Text      string
	MediaType string // such as image/png; empty for a text
	Data      []byte
}

// Text returns a result of one text.
func Text(text string) Result { return Result{Content: []Content{{Text: text}}} }

// Errorf returns a result of one text that says why a call did not do what was
// asked for.
func Errorf(format string, args ...any) Result {
	r := Text(fmt.Sprintf(format, args...))
	r.IsError = true
	return r
}

// JSON returns a result of one text, which is the value as JSON.
func JSON(value any) (Result, error) {
	data, err := json.Marshal(value)
	return Text(string(data)), err
}

// Text returns the texts of the result, with a line for each other content.
func (r Result) Text() string {
	var texts []string
	for _, c := range r.Content {
		text := c.Text
		if c.MediaType != "" {
			text = fmt.Sprintf("[%s, %d bytes]", c.MediaType, len(c.Data))
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n")
}
