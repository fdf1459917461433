package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
)

// progress is what the job's test said of the states of the workspace.
type progress struct {
	// Steps are the states, each with its checkpoint, and the call after which it was: the id
	// of the call is its exec id.
	Steps []tools.Step `json:"steps,omitempty"`
	// Tested and Passed are the calls after which the test ran last, and last passed.
	Tested string `json:"tested,omitempty"`
	Passed string `json:"passed,omitempty"`
	// Rewind, unless empty, is the call to which the workspace is to be rewound before anything else.
	Rewind string `json:"rewind,omitempty"`
}

// untested reports whether the workspace may have changed since the last test.
func (p *progress) untested() bool {
	return len(p.Steps) > 0 && p.Steps[len(p.Steps)-1].Call != p.Tested
}

// attempt tests what the model has done in its turn, and has it undone if it broke the test. The test may run twice.
//
// The rewind itself is the next step of the loop: a host that is killed while it rewinds must not test
// the workspace again before it has done so.
func (h *host) attempt(ctx context.Context, calls *caller) error {
	output, passed, err := h.runTest(ctx, calls)
	if err != nil {
		return err
	}
	p := &h.conversation.Progress
	p.Tested = p.Steps[len(p.Steps)-1].Call
	h.log.Info("tested", "passed", passed)
	switch {
	case passed:
		p.Passed = p.Tested
	case p.Passed != "":
		p.Rewind = p.Passed
		h.conversation.say("Your last changes made the test fail, and were undone: the workspace is as it was when the test last passed. Its output was:\n" + output)
	}
	return nil
}

// runTest runs the job's test in the sandbox, and returns its output and whether it passed.
func (h *host) runTest(ctx context.Context, calls *caller) (output string, passed bool, err error) {
	cmd := calls.sandbox.Shell(ctx, h.test)
	cmd.Timeout = testTimeout
	all := tail{limit: testOutput}
	cmd.Stdout, cmd.Stderr = &all, &all
	err = cmd.Run()
	if exit, ok := errors.AsType[*podapi.ExitError](err); ok {
		all.Write([]byte(exit.Error()))
	} else if err != nil {
		return "", false, fmt.Errorf("running the test: %w", err)
	}
	clean, cleanErr := calls.session.Clean(ctx, tools.Text(string(all.text)))
	return clean.Text(), err == nil, cleanErr
}

// rewind does the rewind that is due. It may be done twice.
func (h *host) rewind(ctx context.Context, calls *caller) error {
	p := &h.conversation.Progress
	h.log.Info("rewinding", "call", p.Rewind)
	done, err := calls.session.Rewind(ctx, p.Rewind)
	if errors.Is(err, checkpoint.ErrIncomplete) {
		h.conversation.say(fmt.Sprintf("Some files could not be brought back: %s", strings.Join(paths(done.Kept), ", ")))
	} else if err != nil {
		return err
	}
	h.log.Info("rewound", "changed", done.Changed)
	p.Tested, p.Rewind = p.Rewind, ""
	return nil
}

func paths(left []checkpoint.LeftOut) (paths []string) {
	for _, l := range left {
		paths = append(paths, l.Path)
	}
	return paths
}

// tail keeps the end of what is written to it.
type tail struct {
	text  []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-t.limit):]
	return len(p), nil
}

// newSession returns the tools. With a test, it keeps the states of the workspace, and knows
// those of earlier tries.
//
// The session is not closed: the next try may need the files that it keeps in the sandbox. They are removed with the
// sandbox.
func (h *host) newSession(sandbox *launcher.Sandbox) *tools.Session {
	opts := tools.Options{Secrets: h.secrets}
	if h.test != "" {
		opts.Checkpoint = &tools.CheckpointOptions{History: h.conversation.Progress.Steps, Failed: func(call string, err error) {
			h.log.Warn("no checkpoint", "call", call, "error", err)
		}}
	}
	return tools.New(sandbox, opts, tools.Coding()...)
}
