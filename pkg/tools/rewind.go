package tools

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// CheckpointOptions say how a session keeps what its calls do to the sandbox's workdir, so that [Session.Rewind] can bring a
// state back. The sandbox keeps the states, each in a checkpoint that has the id of the call as its name.
//
// There is one after each call of a tool that is not read-only, and of BashOutput, since a command in the background has
// gone on meanwhile. There is none after a call that returned an error, and one for all calls of a [Session.Batch], after
// the last of them. Before the first such call there is one of the state that the session found: [Beginning]. A
// checkpoint costs a look at each file of the workdir, and the bytes that have changed. Files elsewhere are not in it.
type CheckpointOptions struct {
	// Exclude are globs of files that the checkpoints do not have, and that stay as they are when the session is
	// rewound, such as node_modules/.
	Exclude []string
	// History is what [Session.History] returned of an earlier session in the same sandbox.
	History []Step
	// Failed, unless nil, is told why there is no checkpoint after a call. The call has its result all the same. If
	// the sandbox has no place for checkpoints, or an agent without them, Failed is told once, and the session tries no
	// more. It may be called concurrently.
	Failed func(call string, err error)
}

// Beginning stands in a [Step], and for [Session.Rewind], in place of the id of a call: it is the state before the
// first one.
const Beginning = "(beginning)"

// A Step is a state of the workdir in a session's history. Keep steps with the conversation: as JSON they have the
// checkpoint of each call, by which a later session rewinds, and notices if commands have changed it.
type Step struct {
	// Call is the [Call].ID of the call after which it was, or Beginning.
	Call string `json:"call"`
	// Checkpoint has the state.
	Checkpoint checkpoint.ID `json:"checkpoint"`
	// Undone, unless empty, says that the session was rewound to that state. It is the checkpoint of what was there
	// before.
	Undone checkpoint.ID `json:"undone,omitempty"`
}

// History returns the states of the workdir that the session knows, the oldest first, and each time that it was rewound.
// It has the last [MaxSteps].
func (s *Session) History() []Step {
	if s.steps == nil {
		return nil
	}
	s.steps.mu.Lock()
	defer s.steps.mu.Unlock()
	return slices.Clone(s.steps.history)
}

// Begin keeps the state of the workdir as the [Beginning], unless there is a history. Otherwise the first call that may
// change something does it. Use Begin to save the history before that call, or to learn whether the sandbox has a place
// for checkpoints. The error is that of the checkpoint; without [Options].Checkpoint it is [errors.ErrUnsupported].
func (s *Session) Begin(ctx context.Context) error {
	if s.steps == nil {
		return errNoSteps
	}
	if err := s.Prepare(ctx); err != nil {
		return err
	}
	s.steps.begin(ctx)
	s.steps.mu.Lock()
	defer s.steps.mu.Unlock()
	if len(s.steps.history) > 0 {
		return nil
	}
	return cmp.Or(s.steps.failed[Beginning], ctx.Err())
}

var errNoSteps = fmt.Errorf("the session keeps no checkpoints: %w", errors.ErrUnsupported)

// Rewind makes the sandbox's workdir what it was after the call with this id, or at the [Beginning]. Of several calls
// with one id, that is the last. Rewinding to a later call goes forward again.
//
// The state of the session, commands in the background, and files elsewhere stay as they are. Do not rewind while calls
// run: what they change meanwhile may stay. What is not as it was then is in Kept, and the error is
// [checkpoint.ErrIncomplete]. If the session has no checkpoint of the call, the error is [fs.ErrNotExist] and says why;
// without [Options].Checkpoint it is [errors.ErrUnsupported].
func (s *Session) Rewind(ctx context.Context, call string) (checkpoint.Restored, error) {
	if s.steps == nil {
		return checkpoint.Restored{}, errNoSteps
	}
	id, err := s.steps.of(call)
	if err != nil {
		return checkpoint.Restored{}, err
	}
	done, err := s.sandbox.Restore(ctx, id, checkpoint.RestoreOptions{})
	if err == nil || errors.Is(err, checkpoint.ErrIncomplete) {
		s.steps.add(Step{Call: call, Checkpoint: id, Undone: done.Before.ID})
	}
	return done, err
}

// steps takes the checkpoints of a session, and remembers them. A nil one does nothing.
type steps struct {
	CheckpointOptions
	sandbox *launcher.Sandbox
	clean   func(context.Context, error) error // redacts secrets

	// turn has a value while a call looks whether the first checkpoint is there, and makes it.
	turn  chan struct{}
	begun bool

	mu      sync.Mutex
	history []Step
	failed  map[string]error // why there is no checkpoint after a call
	off     error            // why there can be none at all
}

func newSteps(s *Session, opts *CheckpointOptions) *steps {
	if opts == nil {
		return nil
	}
	all := &steps{CheckpointOptions: *opts, sandbox: s.sandbox, clean: s.CleanError, turn: make(chan struct{}, 1), failed: map[string]error{}}
	for _, step := range opts.History {
		all.add(step)
	}
	all.begun = len(all.history) > 0
	return all
}

// begin keeps the state before the first call that may change it.
func (s *steps) begin(ctx context.Context) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return
	}
	if !s.begun {
		s.take(ctx, Beginning)
		s.begun = ctx.Err() == nil
	}
}

// take makes a checkpoint of the state after calls, and returns its id, or "" if there is none.
func (s *steps) take(ctx context.Context, calls ...string) checkpoint.ID {
	s.mu.Lock()
	off := s.off
	s.mu.Unlock()
	if off != nil {
		return ""
	}
	last := calls[len(calls)-1]
	made, err := s.sandbox.Checkpoint(ctx, checkpoint.CreateOptions{Name: stepName(last), Automatic: true, Exclude: s.Exclude})
	if err != nil {
		s.fail(ctx, calls, err)
		return ""
	}
	for _, call := range calls {
		s.add(Step{Call: call, Checkpoint: made.ID})
	}
	return made.ID
}

// stepName returns the name of the checkpoint after a call. Some providers put much into the ids of calls.
func stepName(call string) string {
	return strings.ToValidUTF8(call[:min(len(call), maxStepName)], "")
}

func (s *steps) add(step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, step.Call)
	s.history = append(s.history, step)
	if over := len(s.history) - MaxSteps; over > 0 {
		s.history = slices.Delete(s.history, 0, over)
	}
}

// fail says why there is no checkpoint after calls.
func (s *steps) fail(ctx context.Context, calls []string, err error) {
	err = s.clean(context.WithoutCancel(ctx), err)
	s.mu.Lock()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, podapi.ErrVersion) {
		s.off = err
	}
	if len(s.failed) >= MaxSteps {
		clear(s.failed) // what they say is a comfort
	}
	for _, call := range calls {
		s.failed[call] = err
	}
	s.mu.Unlock()
	if s.Failed != nil {
		s.Failed(calls[len(calls)-1], err)
	}
}

// of returns the last checkpoint of the state after a call.
func (s *steps) of(call string) (checkpoint.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, step := range slices.Backward(s.history) {
		if step.Call == call && s.failed[call] == nil {
			return step.Checkpoint, nil
		}
	}
	if why := cmp.Or(s.failed[call], s.off); why != nil {
		return "", fmt.Errorf("rewinding to call %.*q: %w, for there could be no checkpoint: %w", maxQuote, call, fs.ErrNotExist, why)
	}
	return "", fmt.Errorf("rewinding to call %.*q: %w: the session knows no checkpoint of it", maxQuote, call, fs.ErrNotExist)
}

// keepBefore keeps the state that calls find, if they are the first that may change it.
func (s *Session) keepBefore(ctx context.Context, calls []Call) {
	if s.steps != nil && s.err == nil && ctx.Err() == nil && slices.ContainsFunc(calls, s.mayChange) {
		s.steps.begin(ctx)
	}
}

// keepAfter keeps the state after calls that have returned, if one of them may have changed it.
func (s *Session) keepAfter(ctx context.Context, calls []Call, results []Result, errs []error) {
	if s.steps == nil {
		return
	}
	var ids []string
	var of []*Result
	for i, c := range calls {
		if errs[i] == nil && s.mayChange(c) {
			ids, of = append(ids, cmp.Or(c.ID, rand.Text())), append(of, &results[i])
		}
	}
	if len(ids) == 0 {
		return
	}
	made := s.steps.take(ctx, ids...)
	for _, r := range of {
		r.Checkpoint = made
	}
}

func (s *Session) mayChange(c Call) bool {
	b := s.byName[c.Name]
	return b != nil && b.mayChange()
}

// mayChange reports whether the workdir may be another one after a call. A command in the background may have changed
// it when its output is read.
func (b *bound) mayChange() bool {
	switch b.tool.(type) {
	case BashOutput, *BashOutput:
		return true
	case Checkpoint, *Checkpoint:
		return false
	}
	return !b.spec.ReadOnly
}
