// Package tools provides the tools that an agent host gives to a model. They
// work in any sandbox. A host needs two lines:
//
//	session := tools.New(sandbox, tools.Options{}, tools.Coding()...)
//	result, err := session.Call(ctx, "Read", json.RawMessage(`{"path": "go.mod"}`))
//
// [Session.Specs] describes the tools to the model. [Session.Batch] makes all
// calls of one message of the model at once. Each call sees the session's state
// as it was at the beginning. When the last call has ended, their changes to the
// state are merged in the order of the calls.
//
// The package promises:
//
//   - If the model can do something about a failure, the call returns a [Result]
//     with IsError. It says what was wrong, what was found, and what to try. An
//     error is for the host: the context ended, or the sandbox is lost or cannot
//     be reached.
//   - A result that hit a limit says so, and how to get the rest.
//   - Inputs are checked against the tool's schema before the tool sees them. If
//     a parameter is unknown, missing or of a wrong type, the result says so in a
//     sentence, with the right name for one that other agents have. Some models send numbers as strings, so "10" is accepted as 10
//     for an integer or a number, "true" as true for a boolean, and 10.0 as 10.
//     A null means that the parameter is left out.
//   - Secrets appear only in the environment of commands. They are redacted from
//     results, errors, live output, and the files that keep whole outputs. See
//     package secret for the limits of redaction. Secrets are not hidden inside
//     the sandbox: processes of one user can read each other's environment in
//     /proc, and files that a command writes are not redacted.
//   - If a tool panics, or does not end when its context does, only its call
//     fails.
//
// Models are trained with the tools of certain agents. [Options].Dialect gives the
// tools of this package the names, parameters and answers of another agent's. What
// they do is the same.
//
// Hosts can add tools of their own with the same interface. [Func] makes a tool
// from a function.
package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// Tool is a function that a model can call. It may be called concurrently.
type Tool interface {
	// Spec describes the tool. It always returns the same value.
	Spec() Spec
	// Call runs the tool. The input is a JSON object that fits the InputSchema,
	// without the schema's defaults filled in. If the model can do something
	// about a failure, Call returns a Result with IsError. An error is for the
	// host, and ends the model's turn. Call must return when ctx ends.
	Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error)
}

// Spec describes a tool to a model and to its host. The booleans are hints, as
// in the Model Context Protocol.
type Spec struct {
	// Name is the name that the model calls: 1 to 64 letters, digits, "_" and "-".
	Name string
	// Title is the name for people; empty means Name.
	Title string
	// Description is for the model.
	Description string
	// InputSchema is a JSON Schema of an object. Parameters that it does not
	// name are refused unless it sets additionalProperties.
	InputSchema json.RawMessage
	// ReadOnly says that a call changes nothing.
	ReadOnly bool
	// Destructive says that a call may change or remove existing things, not
	// only add new ones.
	Destructive bool
	// Idempotent says that repeating a call changes nothing more.
	Idempotent bool
	// OpenWorld says that a call may reach beyond the sandbox.
	OpenWorld bool
}

// Coding returns the tools for an agent that changes files: Read, Bash (with
// BashOutput and BashKill), Edit, Write, Glob and Grep.
func Coding() []Tool {
	return []Tool{Read{}, Bash{}, BashOutput{}, BashKill{}, Edit{}, Write{}, Glob{}, Grep{}}
}

// ReadOnly returns the tools for an agent that only looks: Read, Bash (with
// BashOutput and BashKill), Glob and Grep. Note that Bash can still change files.
func ReadOnly() []Tool {
	return []Tool{Read{}, Bash{}, BashOutput{}, BashKill{}, Glob{}, Grep{}}
}

// Result is the answer of a call to the model.
type Result struct {
	Content []Content
	// IsError says that the call failed. The content says why.
	IsError bool
	// State holds changes to the session's state. It is for the host: the model
	// does not see it, and it is not redacted.
	State map[string]any
	// Checkpoint has the workdir as it was after the call, if the session keeps
	// checkpoints. It is for the host.
	Checkpoint checkpoint.ID
}

// Content is a text, or bytes of another MediaType.
type Content struct {
	Text      string
	MediaType string // such as image/png; empty for a text
	Data      []byte
}

// Text returns a result with one text.
func Text(text string) Result { return Result{Content: []Content{{Text: text}}} }

// Errorf returns an error result with one text, which says why the call failed.
func Errorf(format string, args ...any) Result {
	r := Text(fmt.Sprintf(format, args...))
	r.IsError = true
	return r
}

// JSON returns a result with one text: the value as JSON.
func JSON(value any) (Result, error) {
	data, err := json.Marshal(value)
	return Text(string(data)), err
}

// Text returns the texts of the result, one per line. For content of another
// type it has a line with the media type and the size.
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
