package tools

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// BashKill ends a background command and all processes that it started. If the
// command had already ended by itself, processes that it left behind run on.
type BashKill struct{}

const bashKillSchema = `{
	"type": "object",
	"properties": {
		"id": {"type": "string", "minLength": 1, "description": "The id that Bash returned."}
	},
	"required": ["id"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (BashKill) Spec() Spec {
	return Spec{
		Name: "BashKill", Title: "End a background command",
		Description: "Ends a background command and all processes that it started, and returns its output since the last read.",
		InputSchema: json.RawMessage(bashKillSchema), Destructive: true, Idempotent: true,
	}
}

type bashKillInput struct {
	ID string `json:"id"`
}

// Call implements Tool.
func (BashKill) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[bashKillInput]("BashKill", input)
	if problem != nil {
		return *problem, nil
	}
	if err := end(ctx, env, in.ID); err != nil {
		return unknown(ctx, env, in.ID, err)
	}
	f := env.background.follow(in.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	result, err := f.read(ctx, env, in.ID)
	if err == nil && !result.IsError && len(result.Content) > 0 {
		result.Content[0].Text = env.voice().stopped(in.ID) + result.Content[0].Text
	}
	return result, err
}

// stopped is silent: what follows says that the command has ended.
func (ownVoice) stopped(string) string { return "" }

// kills are the steps to end a command.
var kills = []struct {
	signal syscall.Signal
	wait   time.Duration
}{{syscall.SIGTERM, killGrace}, {syscall.SIGKILL, killWait}}

// end ends a process with TERM, then KILL. It is no error if it has ended before.
func end(ctx context.Context, env *Env, id string) error {
	for _, step := range kills {
		err := env.Sandbox.Signal(ctx, id, step.signal)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		if ended, err := awaitEnd(ctx, env, id, step.wait); ended || err != nil {
			return err
		}
	}
	return nil // it survives even KILL: its state will say that it is running
}

// awaitEnd waits for the end of a process, for a while, and reports whether it has
// ended.
func awaitEnd(ctx context.Context, env *Env, id string, limit time.Duration) (ended bool, err error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	attached, err := env.Sandbox.Attach(wait, id, podapi.AttachOptions{NoOutput: true})
	if err == nil {
		err = attached.Wait()
	}
	switch {
	case attached.Status() != nil || ctx.Err() != nil:
		return true, ctx.Err()
	case wait.Err() != nil:
		return false, nil
	}
	return false, err
}
