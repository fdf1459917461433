package tools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"syscall"

	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// background records how far a session has read the output of background
// commands. The commands belong to the sandbox: any session can use their ids.
type background struct {
	mu       sync.Mutex
	followed map[string]*followed
}

// followed records how far a command's output was read. Between reads, the
// writers hold back an end that may be the first part of a secret.
type followed struct {
	mu     sync.Mutex
	offset [2]int64 // of standard output and standard error
	stream [2]*secret.Writer
}

// follow returns the record of the command with this id, a new one if needed.
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

// forget drops the record of a command that does not exist.
func (b *background) forget(id string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.followed, id)
}

// read reads the output that exists so far, from the offsets on.
func (f *followed) read(ctx context.Context, env *Env, id string) (Result, error) {
	out, held := newOutput(ctx, env), f.held()
	stdout, stderr := f.writer(0, env, out), f.writer(1, env, out)
	process, err := env.Sandbox.Attach(ctx, id, podapi.AttachOptions{
		Stdout: stdout, Stderr: stderr, StdoutOffset: f.offset[0], StderrOffset: f.offset[1], NoFollow: true,
	})
	if err == nil {
		err = process.Wait()
	}
	status := process.Status()
	if ctx.Err() != nil || status == nil && !errors.Is(err, podapi.ErrDetached) || isLost(err) {
		out.discard()
		f.rewind(held)
		if errors.Is(err, syscall.EINVAL) && f.offset[0] > 0 {
			return Errorf("offset %d is beyond the end of the output of %s. Leave it out to read new output.", f.offset[0], env.quote(id)), nil
		}
		return unknown(ctx, env, id, err)
	}
	f.offset[0] += stdout.n + process.Omitted() // Bash merges all output into stdout
	f.offset[1] += stderr.n
	if status != nil {
		f.offset = [2]int64{status.Stdout, status.Stderr}
		_, _ = f.stream[0].Close(), f.stream[1].Close() // out never fails
	}
	return Text(env.voice().followed(followedCommand{id, out.end(ctx), status, process.Omitted(), f.shown()})), nil
}

// followedCommand is a command in the background, with its output since the last read.
type followedCommand struct {
	id, output string
	status     *podapi.ExitStatus // nil while it runs
	omitted    int64
	next       int64 // the offset at which the output continues
}

func (ownVoice) followed(f followedCommand) string {
	state, remark := "running", ""
	if f.status != nil {
		state, remark = "ended, "+f.status.String(), remarks(*f.status, "end it with kill in Bash")
	}
	return endLine(report(f.output, "", f.omitted)) + remark + fmt.Sprintf("(%s; the output continues at offset %d)", state, f.next)
}

// writer returns the writer of stdout (0) or stderr (1). It continues with the
// bytes held back by the last read.
func (f *followed) writer(stream int, env *Env, out *output) *counter {
	if f.stream[stream] == nil {
		f.stream[stream] = env.redactor.Writer(out)
		if f.offset[stream] > 0 {
			f.stream[stream].FromMiddle()
		}
	}
	f.stream[stream].Redirect(out)
	return &counter{w: f.stream[stream]}
}

// shown returns the offset up to which the output was shown. Held-back bytes do
// not count: another session would have to read them again.
func (f *followed) shown() int64 { return f.offset[0] - f.held()[0] }

// held returns how many bytes were read but not shown yet.
func (f *followed) held() (held [2]int64) {
	for i, w := range f.stream {
		if w != nil {
			held[i] = int64(w.Held())
		}
	}
	return held
}

// rewind makes the next read start at the end of the output shown so far.
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

// unknown turns an error of a call by id into a result or an error for the host.
func unknown(ctx context.Context, env *Env, id string, err error) (Result, error) {
	switch {
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.Is(err, podapi.ErrAgentLost) && !isLost(err):
		return Errorf("the sandbox's agent was restarted, and all commands have ended, including %s", env.quote(id)), nil
	case isOneOf(err, ofSandbox) || !isOneOf(err, []error{fs.ErrNotExist, syscall.EINVAL, podapi.ErrExecExpired}):
		return Result{}, err
	}
	// If the sandbox does not answer, return that error instead.
	all, err := env.Sandbox.Processes(ctx)
	if err != nil {
		return Result{}, err
	}
	env.background.forget(id)
	return Errorf("there is no command with the id %s. %s", env.quote(id), known(env, all)), nil
}

// known lists commands that the model may have meant.
func known(env *Env, all []podapi.ProcessInfo) string {
	if len(all) == 0 {
		return "There are no commands at all: they end when the sandbox is restarted."
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
		names = append(names, p.ID+" ("+cut(env.redactor.Redact(what), maxQuote)+")")
	}
	return "The last ones are: " + strings.Join(names, ", ")
}
