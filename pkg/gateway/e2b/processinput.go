package e2b

import (
	"context"
	"errors"
	"net/http"
	"os"
	"syscall"

	"connectrpc.com/connect"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/podapi"
)

// sendSignal sends a signal to a process, and to all that it started.
func (*processes) sendSignal(ctx context.Context, in *sendSignalRequest) (*nothing, error) {
	t := in.Process.task("SendSignal")
	if in.Signal == 0 {
		t.fault = faces.BadRequest("there is no signal: it must be SIGNAL_SIGTERM or SIGNAL_SIGKILL, or a number from 1 to 64")
	}
	return &nothing{}, t.onProcesses(ctx, func(c *podapi.Client) error {
		p, err := in.Process.findRunning(ctx, c)
		if err != nil {
			return err
		}
		if err := c.Signal(ctx, p.ID, syscall.Signal(in.Signal)); !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return notFound("the process of " + in.Process.String() + " has ended")
	})
}

// update changes the size of a process's terminal.
func (*processes) update(ctx context.Context, in *updateRequest) (*nothing, error) {
	t := in.Process.task("Update")
	if in.PTY == nil || in.PTY.Size == nil {
		t.fault = faces.BadRequest("there is nothing to change: pty.size must be the size of a terminal")
	}
	return &nothing{}, t.onProcesses(ctx, func(c *podapi.Client) error {
		found, err := in.Process.findRunning(ctx, c)
		if err != nil {
			return err
		}
		p, err := c.Attach(ctx, found.ID, podapi.AttachOptions{NoOutput: true})
		if err != nil {
			return err
		}
		err = p.Resize(*in.PTY.size())
		return errors.Join(err, ignoreDone(p.Detach())) // the agent detaches when it has done what came before
	})
}

func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// sendInput sends input to a process, and answers when the process has taken it.
func (ps *processes) sendInput(ctx context.Context, in *sendInputRequest) (*nothing, error) {
	t := in.Process.task("SendInput")
	if t.fault == nil {
		t.fault = in.Input.fault()
	}
	return &nothing{}, t.onProcesses(ctx, func(c *podapi.Client) error {
		i, err := ps.input(ctx, c, &in.Process)
		if err != nil {
			return err
		}
		defer i.Leave()
		return i.send(&in.Input)
	})
}

// closeStdin ends the input of a process.
func (ps *processes) closeStdin(ctx context.Context, in *closeStdinRequest) (*nothing, error) {
	return &nothing{}, in.Process.task("CloseStdin").onProcesses(ctx, func(c *podapi.Client) error {
		i, err := ps.input(ctx, c, &in.Process)
		if err != nil {
			return err
		}
		defer i.Leave()
		return i.Close()
	})
}

// streamInput sends what comes of input to a process.
func (ps *processes) streamInput(ctx context.Context, in *connect.ClientStream[streamInputRequest]) (*nothing, error) {
	t, process := task{operation: "process/StreamInput"}, selector{}
	if in.Receive() && in.Msg().Start != nil {
		process = in.Msg().Start.Process
		t = process.task("StreamInput")
	} else if t.fault = streamFault(ctx, in.Err()); t.fault == nil {
		t.fault = faces.BadRequest("the first message must be a start, which names the process")
	}
	return &nothing{}, t.onProcesses(ctx, func(c *podapi.Client) error {
		i, err := ps.input(ctx, c, &process)
		if err != nil {
			return err
		}
		id := i.Process().ID()
		i.Leave() // others have their turns while nothing comes
		for in.Receive() {
			if data := in.Msg().Data; data != nil {
				if err := ps.sendTo(ctx, c, id, &data.Input); err != nil {
					return err
				}
			}
		}
		return streamFault(ctx, in.Err())
	})
}

func (ps *processes) sendTo(ctx context.Context, c *podapi.Client, execID string, in *processInput) error {
	i, err := ps.inputOf(ctx, c, execID)
	if err != nil {
		return err
	}
	defer i.Leave()
	return i.send(in)
}

// streamFault returns what is wrong with a message of a stream, which the library says in its own words.
func streamFault(ctx context.Context, err error) error {
	if of, ok := errors.AsType[*connect.Error](err); ok && ctx.Err() == nil {
		return faces.BadRequest("%s", of.Message())
	}
	return err
}

// input is the standard input of a process while a call sends some.
type input struct{ *stdin.Input }

// input takes the input of a process. Leave it afterwards.
func (ps *processes) input(ctx context.Context, c *podapi.Client, of *selector) (*input, error) {
	call := callOf(ctx).Call
	if of.PID != nil {
		if id, ok := ps.ids.get(keyOfPID(call, *of.PID)); ok {
			i, err := ps.inputOf(ctx, c, id)
			if err == nil && i.Process().HasStdin() { // so it runs, and the pid is its own
				return i, nil
			}
			if err == nil {
				i.Leave()
			}
		}
	}
	p, err := of.findRunning(ctx, c)
	if err != nil {
		return nil, err
	}
	ps.ids.put(keyOfPID(call, p.PID), p.ID)
	return ps.inputOf(ctx, c, p.ID)
}

func (ps *processes) inputOf(ctx context.Context, c *podapi.Client, execID string) (*input, error) {
	i, err := ps.senders.Take(ctx, c, execID)
	if err != nil {
		return nil, err
	}
	return &input{i}, nil
}

// fault says what is wrong with input; nil if nothing is.
func (in *processInput) fault() error {
	if (in.Stdin == nil) == (in.PTY == nil) {
		return faces.BadRequest("the input must be of stdin or of pty")
	}
	return nil
}

// send sends input, and returns when the process has taken it.
func (i *input) send(in *processInput) error {
	if err := in.fault(); err != nil {
		return err
	}
	data := in.Stdin
	if in.PTY != nil {
		data = in.PTY
	}
	if (in.PTY != nil) != i.Process().HasTerminal() {
		return faces.BadRequest("the input of a process with a terminal is pty, and that of another one stdin")
	}
	return asClosed(i.Send(*data))
}

// asClosed returns an error as calls have it.
func asClosed(err error) error {
	if errors.Is(err, stdin.ErrClosed) {
		return gateway.Fail(http.StatusConflict, "stdin_closed", err.Error())
	}
	return err
}
