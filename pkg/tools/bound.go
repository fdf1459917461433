package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"time"

	"github.com/podagent/podagent/pkg/tools/secret"
)

// bound is a tool with its spec and the checker of its input.
type bound struct {
	tool  Tool
	spec  Spec
	form  *form // nil if the tool is as its Spec says
	input *inputs
}

// validName matches the tool names that model providers accept.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// bind makes a tool ready for calls in a dialect.
func bind(tool Tool, in *dialect) (*bound, error) {
	if tool == nil {
		return nil, errors.New("one of the tools is nil")
	}
	if c, ok := tool.(interface{ check() error }); ok {
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	spec, form := tool.Spec(), in.formOf(tool)
	var others map[string]string
	if isOurs(tool) {
		others = otherNames(spec.Name, form)
	}
	if form != nil {
		spec = form.spec(tool)
	}
	if !validName.MatchString(spec.Name) {
		return nil, fmt.Errorf("%q is not a valid tool name: it must be 1 to 64 letters, digits, underscores and hyphens", spec.Name)
	}
	input, err := newInputs(spec, others)
	if err != nil {
		return nil, fmt.Errorf("the schema of tool %q: %w", spec.Name, err)
	}
	return &bound{tool, spec, form, input}, nil
}

// check returns the input for the tool, or what is wrong with it.
func (b *bound) check(raw json.RawMessage, redactor *secret.Redactor) (input json.RawMessage, problem string) {
	input, problem = b.input.normalize(raw)
	if problem == "" || !redactor.Finds(raw) {
		return input, problem
	}
	// The message quotes a part of a wrong value, so redact first: a secret cut
	// in two would not be found later.
	_, problem = b.input.normalize(json.RawMessage(redactor.Redact(string(raw))))
	if problem == "" {
		problem = fmt.Sprintf("the input of %s does not fit its schema", b.spec.Name)
	}
	return nil, problem
}

// call calls the tool. It returns even if the tool panics, ends its goroutine, or
// goes on after its context has ended.
func (b *bound) call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	type outcome struct {
		result Result
		err    error
	}
	returned := make(chan outcome, 1)
	go func() {
		o := outcome{err: fmt.Errorf("tool %s ended its goroutine", b.spec.Name)} // unless it returns
		defer func() {
			if v := recover(); v != nil {
				o.err = &PanicError{Tool: b.spec.Name, Value: v, Stack: debug.Stack()}
			}
			returned <- o
		}()
		if b.form != nil {
			input = b.form.translate(input)
		}
		result, err := b.tool.Call(ctx, env, input)
		o = outcome{result, err}
	}()
	select {
	case o := <-returned:
		return o.result, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-returned:
		return o.result, o.err
	case <-time.After(AbandonAfter):
		return Result{}, fmt.Errorf("tool %s was abandoned, because it does not end: %w", b.spec.Name, ctx.Err())
	}
}

// PanicError is the error of a call whose tool panicked.
type PanicError struct {
	Tool string
	// Value is the value of the panic, and Stack its stack trace, for a log.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("tool %s panicked: %v", e.Tool, e.Value) }
