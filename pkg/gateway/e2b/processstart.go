package e2b

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/podapi"
)

// start runs a command. It outlives its caller, also one whose connection breaks: Connect finds it
// again. What ends it is the timeout that the caller asks for.
func (ps *processes) start(ctx context.Context, in *startRequest, out *events[processResponse]) error {
	t := task{operation: "process/Start", fault: in.fault()}
	if in.Process != nil {
		t.detail.Args = append([]string{in.Process.Cmd}, in.Process.Args...)
	}
	return t.onProcesses(ctx, func(c *podapi.Client) error {
		r := newRun(ctx, out)
		err := r.start(c, in, in.Process.Cmd)
		for _, name := range ps.standIns[in.Process.Cmd] {
			if !isMissing(err) {
				break
			}
			r = newRun(ctx, out)
			err = r.start(c, in, name)
		}
		if !r.own && faces.IsAboutFile(err) { // the command's, or its directory's
			return faces.BadRequest("%v", err)
		}
		return err
	})
}

// fault says what is wrong with a request; nil if the sandbox can tell.
func (in *startRequest) fault() error {
	if in.Process == nil || in.Process.Cmd == "" {
		return faces.BadRequest("there is no command: process.cmd must be one")
	}
	if len(in.Tag) > tagLimit {
		return faces.BadRequest("the tag has %d bytes: it may have %d", len(in.Tag), tagLimit)
	}
	for name := range in.Process.Envs {
		if name == "" || strings.Contains(name, "=") {
			return faces.BadRequest("the environment variable %.40q has no name, or a = in it", name)
		}
	}
	return nil
}

func (in *startRequest) hasInput() bool { return in.PTY != nil || in.Stdin == nil || *in.Stdin }

// settle sets what the request says of a command beside its arguments.
func (in *startRequest) settle(ctx context.Context, cmd *podapi.Cmd) {
	cmd.Dir = in.Process.Cwd
	for name, value := range in.Process.Envs {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if in.PTY != nil {
		cmd.Terminal = in.PTY.size()
	}
	if in.Tag != "" {
		cmd.ID, cmd.Env = taggedID(in.Tag), append(cmd.Env, tagVariable+"="+in.Tag)
	}
	if at, ok := ctx.Deadline(); ok {
		cmd.Timeout = max(time.Until(at), time.Millisecond)
	}
}

// size returns the size of a terminal: that of old terminals, unless it is given.
func (t *terminal) size() *podapi.TerminalSize {
	if t.Size == nil {
		return &podapi.TerminalSize{Rows: 24, Columns: 80}
	}
	return &podapi.TerminalSize{Rows: t.Size.Rows, Columns: t.Size.Cols}
}

// isMissing reports whether a command could not start because it does not exist.
func isMissing(err error) bool {
	pe, ok := errors.AsType[*fs.PathError](err)
	return ok && pe.Op == "exec" && errors.Is(err, fs.ErrNotExist)
}
