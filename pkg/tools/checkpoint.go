package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
)

// Checkpointing returns the tools with which a model keeps states of the workdir and goes back to them by itself:
// Checkpoint, Checkpoints, Diff and Restore. A host that goes back for the model has [Options].Checkpoint.
func Checkpointing() []Tool { return []Tool{Checkpoint{}, CheckpointList{}, Diff{}, Restore{}} }

// Checkpoint keeps the present state of the workdir.
type Checkpoint struct{}

const checkpointSchema = `{
	"type": "object",
	"properties": {"name": {"type": "string", "maxLength": 100, "description": "What the state is, such as: tests pass."}},
	"additionalProperties": false
}`

// Spec implements Tool.
func (Checkpoint) Spec() Spec {
	return Spec{
		Name: "Checkpoint", Title: "Keep the state of all files",
		Description: "Keeps the state of all files in the working directory, and returns its id. Restore brings it back. Use it before risky changes.",
		InputSchema: json.RawMessage(checkpointSchema),
	}
}

// Call implements Tool.
func (Checkpoint) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[struct{ Name string }]("Checkpoint", input)
	if problem != nil {
		return *problem, nil
	}
	c, err := env.Sandbox.Checkpoint(ctx, checkpoint.CreateOptions{Name: in.Name})
	if err != nil {
		return noCheckpoint(ctx, env, "make a checkpoint", err)
	}
	text := &listing{}
	text.add(fmt.Sprintf("The checkpoint is %s (%s).", shortID(c.ID), count(int(c.Files), "file")))
	text.leave("it lacks", c.LeftOut, c.MoreLeftOut)
	if len(c.Moving) > 0 {
		text.note("%s kept changing meanwhile, such as %s", count(len(c.Moving)+int(c.MoreMoving), "file"), c.Moving[0])
	}
	return text.result(""), nil
}

// CheckpointList lists the checkpoints.
type CheckpointList struct{}

// Spec implements Tool.
func (CheckpointList) Spec() Spec {
	return Spec{
		Name: "Checkpoints", Title: "List the kept states",
		Description: "Lists the last 50 checkpoints, the newest first: id, age and name.",
		InputSchema: json.RawMessage(`{"type": "object", "properties": {}, "additionalProperties": false}`), ReadOnly: true, Idempotent: true,
	}
}

// Call implements Tool.
func (CheckpointList) Call(ctx context.Context, env *Env, _ json.RawMessage) (Result, error) {
	all, err := env.Sandbox.Checkpoints(ctx)
	if err != nil {
		return noCheckpoint(ctx, env, "list the checkpoints", err)
	}
	text := &listing{}
	for i, c := range slices.Backward(all) {
		if i < len(all)-maxPoints {
			text.note("there are %d more", i+1)
			break
		}
		age := max(0, time.Since(c.Time)).Round(time.Second)
		text.add(strings.TrimSpace(fmt.Sprintf("%s  %v ago  %s", shortID(c.ID), age, oneLine(c.Name))))
	}
	return text.result("(there are no checkpoints)"), nil
}

// Diff compares a checkpoint with what is there now, or with another one.
type Diff struct{}

const diffSchema = `{
	"type": "object",
	"properties": {
		"from": {"type": "string", "description": "Id of the checkpoint."},
		"to": {"type": "string", "description": "Id of the checkpoint to compare it with; by default the files as they are now."},
		"text": {"type": "boolean", "default": false, "description": "Show the changed lines, too."}
	},
	"required": ["from"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Diff) Spec() Spec {
	return Spec{
		Name: "Diff", Title: "Show changes since a checkpoint",
		Description: "Shows which files differ from a checkpoint: added (A), removed (D), modified (M), of another type (T), with another mode, owner or time (m), or unreadable, so that they may differ (?).",
		InputSchema: json.RawMessage(diffSchema), ReadOnly: true, Idempotent: true,
	}
}

// Call implements Tool.
func (Diff) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[struct {
		From, To string
		Text     bool
	}]("Diff", input)
	if problem != nil {
		return *problem, nil
	}
	from, err := wholeID(ctx, env, in.From)
	var to checkpoint.ID
	if err == nil && in.To != "" {
		to, err = wholeID(ctx, env, in.To)
	}
	if err != nil {
		return noCheckpoint(ctx, env, "compare", err)
	}
	text := &listing{narrower: "Compare with a later checkpoint"}
	for d, err := range env.Sandbox.Diff(ctx, from, to, checkpoint.DiffOptions{Text: in.Text}) {
		if errors.Is(err, podapi.ErrTooLarge) {
			text.full = true
			break
		}
		if err != nil {
			return noCheckpoint(ctx, env, "compare", err)
		}
		if !text.add(d.Line(d.Path)) || len(d.Diff) > 0 && !text.add(strings.TrimSuffix(string(d.Diff), "\n")) {
			break
		}
	}
	return text.result("(nothing differs)"), nil
}

// Restore brings back a state of the workdir.
type Restore struct{}

const restoreSchema = `{
	"type": "object",
	"properties": {
		"id": {"type": "string", "description": "Id of the checkpoint."},
		"paths": {"type": "array", "items": {"type": "string", "minLength": 1}, "maxItems": 1000, "description": "Files and directories to bring back; all by default."}
	},
	"required": ["id"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (Restore) Spec() Spec {
	return Spec{
		Name: "Restore", Title: "Bring back a kept state",
		Description: "Makes all files, or paths alone, what they were in a checkpoint: newer changes and files go. Returns the id of a checkpoint of what was there before. " +
			"Commands in the background go on.",
		InputSchema: json.RawMessage(restoreSchema), Destructive: true, Idempotent: true,
	}
}

// Call implements Tool.
func (Restore) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[struct {
		ID    string
		Paths []string
	}]("Restore", input)
	if problem != nil {
		return *problem, nil
	}
	id, err := wholeID(ctx, env, in.ID)
	if err != nil {
		return noCheckpoint(ctx, env, "restore", err)
	}
	paths, err := env.inWorkdir(in.Paths)
	if err != nil {
		return noCheckpoint(ctx, env, "restore", err)
	}
	done, err := env.Sandbox.Restore(ctx, id, checkpoint.RestoreOptions{Paths: paths})
	if err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
		return noCheckpoint(ctx, env, "restore", err)
	}
	text := &listing{}
	text.add(fmt.Sprintf("Restored: %s. What was there before is checkpoint %s.", count(int(done.Changed), "change"), shortID(done.Before.ID)))
	text.leave("not as in the checkpoint", done.Kept, done.MoreKept)
	result := text.result("")
	result.IsError = err != nil
	return result, nil
}

// leave notes what a call left as it is.
func (l *listing) leave(what string, left []checkpoint.LeftOut, more int64) {
	for i, file := range left {
		if i == maxSaid {
			more += int64(len(left) - i)
			break
		}
		l.note("%s: %s: %s", what, file.Path, file.Why)
	}
	if more > 0 {
		l.note("%s: %d more", what, more)
	}
}

// shortID is as much of an id as models are told. Nobody can make another checkpoint whose id begins with it.
func shortID(id checkpoint.ID) string { return string(id[:min(len(id), shownID)]) }

// wholeID returns the id that begins with what a model says.
func wholeID(ctx context.Context, env *Env, text string) (checkpoint.ID, error) {
	if id, err := checkpoint.ParseID(text); err == nil {
		return id, nil
	}
	all, err := env.Sandbox.Checkpoints(ctx)
	if err != nil {
		return "", err
	}
	for _, c := range all {
		if len(text) >= shownID && strings.HasPrefix(string(c.ID), text) {
			return c.ID, nil
		}
	}
	return "", &unknownPoint{text}
}

// unknownPoint says that there is no checkpoint of an id that a model gave.
type unknownPoint struct{ id string }

func (*unknownPoint) Error() string { return "no such checkpoint" }

// noCheckpoint turns an error of a call about checkpoints into a result or an error for the host.
func noCheckpoint(ctx context.Context, env *Env, doing string, err error) (Result, error) {
	var unknown *unknownPoint
	var nowhere *fs.PathError
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.As(err, &unknown):
		return Errorf("cannot %s: there is no checkpoint %s. Use Checkpoints to see what there is.", doing, env.quote(unknown.id)), nil
	case errors.Is(err, podapi.ErrVersion), errors.Is(err, errors.ErrUnsupported):
		return Errorf("cannot %s: this sandbox keeps no checkpoints.", doing), nil
	case isOneOf(err, ofSandbox):
		return Result{}, err
	case errors.As(err, &nowhere) && errors.Is(err, fs.ErrNotExist):
		return Errorf("cannot %s: neither the checkpoint nor the working directory has %s", doing, env.quote(nowhere.Path)), nil
	case errors.Is(err, fs.ErrNotExist):
		return Errorf("cannot %s: there is no such checkpoint. Use Checkpoints to see what there is.", doing), nil
	case errors.Is(err, fsops.ErrChecksum):
		return Errorf("cannot %s: the checkpoint is damaged. Use another one.", doing), nil
	case isOneOf(err, []error{syscall.ENOSPC, syscall.EINVAL, syscall.EFBIG, fs.ErrPermission}):
		return Errorf("cannot %s: %v", doing, err), nil
	}
	return Result{}, err
}

// inWorkdir returns paths from a model as Restore takes them: from the sandbox's workdir.
func (e *Env) inWorkdir(names []string) (paths []string, err error) {
	for _, name := range names {
		if strings.IndexByte(name, 0) >= 0 {
			return nil, fmt.Errorf("a path cannot contain a NUL byte: %w", syscall.EINVAL)
		}
		paths = append(paths, cmp.Or(e.Path(name), "."))
	}
	return paths, nil
}
