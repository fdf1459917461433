package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Call is a call of a tool by a model.
type Call struct {
	// Name is the name of the tool.
	Name string
	// Input is a JSON object. Empty means {}.
	Input json.RawMessage
	// Output, if not nil, gets the redacted output of a command while it runs,
	// from one goroutine at a time, and nothing after the call has returned. Its
	// errors are ignored, and it must not block for long.
	Output io.Writer
	// ExecID, if not empty, is the exec id of the command that Bash or a Command
	// runs: a UUIDv7. Repeating a call with the same id and input does not run
	// the command again. It returns the command's output and exit status, for as
	// long as the agent lives and keeps them. Another host may repeat a call, for
	// example after a crash.
	ExecID string
	// ID is the id that the model's provider gave the call. If the session keeps
	// checkpoints, the one after the call has it as its name, and [Session.Rewind]
	// finds it by that. Empty means a new one, which [Session.History] has.
	ID string
}

// Call calls one tool. Its changes to the state are visible when it returns.
func (s *Session) Call(ctx context.Context, name string, input json.RawMessage) (Result, error) {
	return s.Do(ctx, Call{Name: name, Input: input})
}

// Do is [Session.Call] with all options of a call.
//
// If the tool panics, the error is a [PanicError]. If the tool does not return
// within [AbandonAfter] after the context ended, Do returns the context's error
// without waiting for the tool.
func (s *Session) Do(ctx context.Context, call Call) (Result, error) {
	results, errs := s.together(ctx, []Call{call})
	s.merge(results[0])
	return results[0], errs[0]
}

// Batch makes the calls of one message of a model, at most [MaxConcurrent] at
// once. Each call sees the state as it was at the beginning. When the last has
// ended, their changes are merged in the order of the calls: if two change the
// same key, the later call wins.
//
// Batch returns a result for each call. If a call had an error, its result says
// so. The returned error joins the errors of all calls.
func (s *Session) Batch(ctx context.Context, calls []Call) ([]Result, error) {
	results, errs := s.together(ctx, calls)
	for i, err := range errs {
		if err != nil {
			results[i] = Errorf("%s did not run to its end: %v", calls[i].Name, err)
			errs[i] = fmt.Errorf("call %d, %s: %w", i+1, calls[i].Name, err)
		}
	}
	s.merge(results...)
	return results, errors.Join(errs...)
}

// together makes calls at once, and keeps the state of the workdir after them.
func (s *Session) together(ctx context.Context, calls []Call) ([]Result, []error) {
	state := s.State()
	results := make([]Result, len(calls))
	errs := make([]error, len(calls))
	s.keepBefore(ctx, calls)
	slots := make(chan struct{}, MaxConcurrent)
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i], errs[i] = s.do(ctx, call, state)
		})
	}
	all.Wait()
	s.keepAfter(ctx, calls, results, errs)
	return results, errs
}

func (s *Session) merge(results ...Result) {
	var changes []map[string]any
	for _, r := range results {
		if len(r.State) > 0 {
			changes = append(changes, r.State)
		}
	}
	if len(changes) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = s.state.with(changes...)
}

// do makes a call that sees this state.
func (s *Session) do(ctx context.Context, call Call, state State) (Result, error) {
	if s.err != nil {
		return Result{}, s.err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	secrets, err := s.vault.open(ctx)
	if err != nil {
		return Result{}, err
	}
	result, err := s.run(ctx, call, state, secrets)
	if err != nil {
		return Result{}, secrets.redactor.Error(err)
	}
	return clean(result, secrets.redactor), nil
}

func (s *Session) run(ctx context.Context, call Call, state State, secrets *opened) (Result, error) {
	b := s.byName[call.Name]
	if b == nil {
		return Errorf("there is no tool %s; the tools are %s", quote(secrets.redactor.Redact(call.Name)), s.names()), nil
	}
	input, problem := b.check(call.Input, secrets.redactor)
	if problem != "" {
		return Errorf("%s", problem), nil
	}
	env := &Env{
		Sandbox: s.sandbox, Workdir: s.workdir, State: state, Secrets: secrets.of(call.Name), ExecID: call.ExecID,
		redactor: secrets.redactor, kept: s.kept, background: s.background,
	}
	if b.form != nil {
		env.speaks = s.dialect.voice
	}
	if call.Output != nil {
		live := &liveOutput{to: secrets.redactor.Writer(call.Output)}
		defer live.end()
		env.Output = live
	}
	return b.call(ctx, env, input)
}

func (s *Session) names() string {
	var names []string
	for _, b := range s.tools {
		names = append(names, b.spec.Name)
	}
	return strings.Join(names, ", ")
}
