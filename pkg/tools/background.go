package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// background knows how far a session has read the commands that run in the
// background. The commands themselves are the sandbox's: their ids hold also
// for a session that did not start them.
type background struct {
	mu       sync.Mutex
	followed map[string]*followed
}

// followed is how far a command was read. The writers have what they held back
// when it was read last, lest a secret that came in two parts be shown.
type followed struct {
	mu     sync.Mutex
	offset [2]int64 // of standard output and standard error
	stream [2]*secret.Writer
}

// follow returns how far the command with this id was read.
func (b *background) follow(id string) *followed {
	if b == nil {
		return &followed{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followed == nil {
		b.followed = map[string]*followed{}
	}
	if b.followed[id] == nil {
		b.followed[id] = &followed{}
	}
	return b.followed[id]
}

// forget drops what is known of a command that there is not.
func (b *background) forget(id string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.followed, id)
}

// BashOutput reads what a command in the background has printed.
type BashOutput struct{}

const bashOutputSchema = `{
	"type": "object",
	"properties": {
		"id": {"type": "string", "minLength": 1, "description": "The id that Bash gave."},
		"offset": {"type": "integer", "minimum": 0, "description": "Byte of the output to begin with; by default, what was not read before."}
	},
	"required": ["id"],
	"additionalProperties": false
}`

// Spec implements Tool.
func (BashOutput) Spec() Spec {
	return Spec{
		Name: "BashOutput", Title: "Read a background command's output",
		Description: "Returns what a command in the background has printed since it was last read, and whether it still runs. It does not wait.",
		InputSchema: json.RawMessage(bashOutputSchema), ReadOnly: true,
	}
}

type bashOutputInput struct {
	ID     string `json:"id"`
	Offset *int64 `json:"offset"`
}

// Call implements Tool.
func (BashOutput) Call(ctx context.Context, env *Env, input json.RawMessage) (Result, error) {
	in, problem := decode[bashOutputInput]("BashOutput", input)
	if problem != nil {
		return *problem, nil
	}
	f := env.background.follow(in.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.Offset != nil && *in.Offset != f.offset[0] {
		f.rewind(f.held())
		before := f.offset[0]
		f.offset[0] = *in.Offset
		result, err := f.read(ctx, env, in.ID)
		if err != nil || result.IsError {
			f.offset[0] = before
		}
		return result, err
	}
	return f.read(ctx, env, in.ID)
}

// read reads what there is from the offsets on.
func (f *followed) read(ctx context.Context, env *Env, id string) (Result, error) {
	out := newOutput(ctx, env)
	var counted [2]*counter
	held := f.held()
	for i := range f.stream {
		if f.stream[i] == nil {
			f.stream[i] = env.redactor.Writer(out)
		}
		f.stream[i].Redirect(out)
		counted[i] = &counter{w: f.stream[i]}
	}
	cmd := env.Sandbox.Attach(ctx, id, podapi.AttachOptions{Stdout: f.offset[0], Stderr: f.offset[1], NoFollow: true})
	cmd.Stdout, cmd.Stderr = counted[0], counted[1]
	err := cmd.Run()
	status := cmd.Status()
	switch {
	case ctx.Err() != nil:
		f.rewind(held)
		return Result{}, ctx.Err()
	case status == nil && !errors.Is(err, podapi.ErrDetached) || isLost(err):
		f.rewind(held)
		if errors.Is(err, syscall.EINVAL) && f.offset[0] > 0 {
			return Errorf("offset %d is beyond the end of the output of %s. Leave it out to read what is new.", f.offset[0], quote(id)), nil
		}
		return unknown(ctx, env, id, err)
	}
	f.offset[0] += counted[0].n + cmd.Omitted() // of standard error nothing is ever dropped: see Bash
	f.offset[1] += counted[1].n
	state := "running"
	if status != nil {
		f.stream[0].Close()
		f.stream[1].Close()
		state = "ended, " + status.String()
	}
	text := report(out.end(true), "", cmd.Omitted())
	return Text(endLine(text) + fmt.Sprintf("(%s; the output goes on at offset %d)", state, f.offset[0])), nil
}

// held returns how many bytes were read and not shown yet.
func (f *followed) held() (held [2]int64) {
	for i, w := range f.stream {
		if w != nil {
			held[i] = int64(w.Held())
		}
	}
	return held
}

// rewind has the next read begin where the last one that succeeded had shown all.
func (f *followed) rewind(held [2]int64) {
	for i := range f.stream {
		f.offset[i] -= held[i]
		f.stream[i] = nil
	}
}

// counter counts what goes to w.
type counter struct {
	w *secret.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.w.Write(p)
}

// unknown returns what becomes of an error of a call by an id.
func unknown(ctx context.Context, env *Env, id string, err error) (Result, error) {
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.Is(err, podapi.ErrAgentLost) && !isLost(err):
		return Errorf("the sandbox's agent was restarted, and all commands have ended, also %s", quote(id)), nil
	case isOneOf(err, ofSandbox) || !isOneOf(err, []error{fs.ErrNotExist, syscall.EINVAL, podapi.ErrExecExpired}):
		return Result{}, err
	}
	// If the sandbox does not answer, then it is that which the error says.
	all, err := env.Sandbox.Processes(ctx)
	if err != nil {
		return Result{}, err
	}
	env.background.forget(id)
	return Errorf("there is no command with the id %s. %s", quote(id), known(all)), nil
}

// known names the commands that can be meant.
func known(all []podapi.ProcessInfo) string {
	if len(all) == 0 {
		return "There is none at all: they end when the sandbox is restarted."
	}
	if len(all) > maxSaid {
		all = all[len(all)-maxSaid:]
	}
	var names []string
	for _, p := range all {
		what := strings.TrimPrefix(p.Script, merged)
		if p.Script == "" {
			what = strings.Join(p.Args, " ")
		}
		names = append(names, p.ID+" ("+cut(what, maxQuote)+")")
	}
	return "The last ones are: " + strings.Join(names, ", ")
}
