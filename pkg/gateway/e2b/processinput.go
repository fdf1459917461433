package e2b

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/podapi"
)

// sendSignal sends a signal to a process, and to all that it started.
func (*processes) sendSignal(ctx context.Context, in *sendSignalRequest) (*nothing, error) {
	w := in.Process.work("SendSignal")
	if in.Signal == 0 {
		w.fault = invalidRequest("there is no signal: it must be SIGNAL_SIGTERM or SIGNAL_SIGKILL, or a number from 1 to 64")
	}
	return &nothing{}, w.do(ctx, func(c *podapi.Client) error {
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
	w := in.Process.work("Update")
	if in.PTY == nil || in.PTY.Size == nil {
		w.fault = invalidRequest("there is nothing to change: pty.size must be the size of a terminal")
	}
	return &nothing{}, w.do(ctx, func(c *podapi.Client) error {
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
	w := in.Process.work("SendInput")
	if w.fault == nil {
		w.fault = in.Input.fault()
	}
	return &nothing{}, w.do(ctx, func(c *podapi.Client) error {
		i, err := ps.input(ctx, c, &in.Process)
		if err != nil {
			return err
		}
		defer i.leave()
		return i.send(&in.Input)
	})
}

// closeStdin ends the input of a process.
func (ps *processes) closeStdin(ctx context.Context, in *closeStdinRequest) (*nothing, error) {
	return &nothing{}, in.Process.work("CloseStdin").do(ctx, func(c *podapi.Client) error {
		i, err := ps.input(ctx, c, &in.Process)
		if err != nil {
			return err
		}
		defer i.leave()
		return i.close()
	})
}

// streamInput sends what comes of input to a process.
func (ps *processes) streamInput(ctx context.Context, in *connect.ClientStream[streamInputRequest]) (*nothing, error) {
	w, process := &work{operation: "process/StreamInput"}, selector{}
	if in.Receive() && in.Msg().Start != nil {
		process = in.Msg().Start.Process
		w = process.work("StreamInput")
	} else if w.fault = streamFault(ctx, in.Err()); w.fault == nil {
		w.fault = invalidRequest("the first message must be a start, which names the process")
	}
	return &nothing{}, w.do(ctx, func(c *podapi.Client) error {
		i, err := ps.input(ctx, c, &process)
		if err != nil {
			return err
		}
		id := i.run.ID()
		i.leave() // others have their turns while nothing comes
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
	defer i.leave()
	return i.send(in)
}

// streamFault returns what is wrong with a message of a stream, which the library says in its own words.
func streamFault(ctx context.Context, err error) error {
	if of, ok := errors.AsType[*connect.Error](err); ok && ctx.Err() == nil {
		return invalidRequest(of.Message())
	}
	return err
}

// input is the standard input of a process while a call sends some. Others of this gateway wait: of
// two who send at once both lose bytes.
type input struct {
	ctx      context.Context
	client   *podapi.Client
	run      *podapi.Process
	parts    chan []byte // for the run, to which their end is that of the input
	end      func()      // closes parts
	sent     int64       // how much was sent, from the first input on
	giveBack func()      // the turn
}

// input takes the input of a process. Leave it afterwards.
func (ps *processes) input(ctx context.Context, c *podapi.Client, of *selector) (*input, error) {
	call := callOf(ctx).Call
	if of.PID != nil {
		if id, ok := ps.ids.get(keyOfPID(call, *of.PID)); ok {
			i, err := ps.inputOf(ctx, c, id)
			if err == nil && i.run.HasStdin() { // so it runs, and the pid is its own
				return i, nil
			}
			if err == nil {
				i.leave()
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
	giveBack, err := ps.turns.take(ctx, turnKey{c, execID})
	if err != nil {
		return nil, err
	}
	i := &input{ctx: ctx, client: c, parts: make(chan []byte), giveBack: giveBack}
	i.end = sync.OnceFunc(func() { close(i.parts) })
	if i.run, err = c.Attach(ctx, execID, podapi.AttachOptions{Stdin: &partsReader{parts: i.parts}, NoOutput: true}); err != nil {
		giveBack()
		return nil, err
	}
	i.sent, _ = i.run.StdinTaken(ctx, -1) // nothing was sent yet, so this is where it begins
	return i, nil
}

// leave leaves the process. Only then the parts end: it must not take that for the end of its input.
func (i *input) leave() {
	_ = i.run.Detach()
	i.end()
	i.giveBack()
}

// fault says what is wrong with input; nil if nothing is.
func (in *processInput) fault() error {
	if (in.Stdin == nil) == (in.PTY == nil) {
		return invalidRequest("the input must be of stdin or of pty")
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
	switch {
	case (in.PTY != nil) != i.run.HasTerminal():
		return invalidRequest("the input of a process with a terminal is pty, and that of another one stdin")
	case !i.run.HasStdin():
		return errStdinClosed
	case len(*data) == 0:
		return nil
	}
	select {
	case i.parts <- *data:
	case <-i.ctx.Done():
		return i.ctx.Err()
	}
	i.sent += int64(len(*data))
	return i.await(i.sent)
}

// await waits until the process has taken so much of its input.
func (i *input) await(until int64) error {
	if _, err := i.run.StdinTaken(i.ctx, until-1); !errors.Is(err, podapi.ErrStdinClosed) {
		return err
	}
	taken, open, err := i.look() // perhaps not all was said
	switch {
	case err != nil:
		return err
	case open: // the connection to the sandbox was lost
		return podapi.ErrUnavailable
	case taken < until:
		return errStdinClosed
	}
	return nil
}

// look asks how much of its input the process has taken, and whether it may take more.
func (i *input) look() (taken int64, open bool, err error) {
	p, err := i.client.Attach(i.ctx, i.run.ID(), podapi.AttachOptions{NoFollow: true, NoOutput: true})
	if err != nil {
		return 0, false, err
	}
	_ = p.Wait() // it is left at once, or has ended
	taken, _ = p.StdinTaken(i.ctx, -1)
	return taken, p.HasStdin() && p.Status() == nil, nil
}

// close ends the input, if it has not ended yet.
func (i *input) close() error {
	if !i.run.HasStdin() {
		return nil
	}
	i.end()
	if _, err := i.run.StdinTaken(i.ctx, math.MaxInt64); !errors.Is(err, podapi.ErrStdinClosed) {
		return err
	}
	return nil
}

var errStdinClosed = gateway.Fail(http.StatusConflict, "stdin_closed", "the process takes no more input: its standard input is closed")

// partsReader reads parts until there are no more.
type partsReader struct {
	parts <-chan []byte
	rest  []byte
}

func (r *partsReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		part, ok := <-r.parts
		if !ok {
			return 0, io.EOF
		}
		r.rest = part
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
