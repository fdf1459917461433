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
	// Name is the tool's.
	Name string
	// Input is a JSON object; empty stands for one without members.
	Input json.RawMessage
	// Output, if not nil, gets what a command prints while it runs, redacted,
	// from one goroutine at a time, and nothing more once the call has returned.
	// Its errors are ignored, and it must not block for long.
	Output io.Writer
	// ExecID, if not empty, is the exec id of the command that Bash or a Command
	// runs: a UUIDv7. A call that is made again with the same id and input, also
	// by another host after a crash, does not run the command again, but has its
	// output and its end, for as long as the agent lives and keeps them.
	ExecID string
}

// Call calls one tool. What it changes of the state is there when it returns.
func (s *Session) Call(ctx context.Context, name string, input json.RawMessage) (Result, error) {
	return s.Do(ctx, Call{Name: name, Input: input})
}

// Do is Call with all that can be said of a call.
//
// A tool that panics is a [PanicError]. One that does not return within
// [AbandonAfter] of the context's end is left behind, and the error is the
// context's.
func (s *Session) Do(ctx context.Context, call Call) (Result, error) {
	result, err := s.do(ctx, call, s.State())
	s.merge(result)
	return result, err
}

// Batch makes the calls of one message of a model at once, [MaxConcurrent] at
// most. Each sees the state as it was at the beginning; what they change of it
// is merged when the last has ended, in the order of the calls, so that of two
// changes of one key the later call's stays.
//
// There is a result for each call. Where a call had an error, its result is one
// that says so, and the errors of all are joined in the one that is returned.
func (s *Session) Batch(ctx context.Context, calls []Call) ([]Result, error) {
	state := s.State()
	results := make([]Result, len(calls))
	errs := make([]error, len(calls))
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
	for i, err := range errs {
		if err != nil {
			results[i] = Errorf("%s did not run to its end: %v", calls[i].Name, err)
			errs[i] = fmt.Errorf("call %d, %s: %w", i+1, calls[i].Name, err)
		}
	}
	s.merge(results...)
	return results, errors.Join(errs...)
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

// do makes a call with the state that it is to see.
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
