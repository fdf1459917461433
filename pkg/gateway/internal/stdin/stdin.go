// Package stdin sends input to processes of a sandbox that somebody else has started, a part with each
// call. Who has no offsets sends by [Senders], and who has some by [At].
package stdin

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/podagent/podagent/pkg/podapi"
)

// ErrClosed says that a process takes no more input.
var ErrClosed = errors.New("the process takes no more input: its standard input is closed")

// Senders let those who send input to one process go one after the other: of two who send at once both
// lose bytes.
type Senders struct{ turns turns }

// Input is the standard input of a process while a call sends some. Other calls of the same Senders wait.
type Input struct {
	ctx      context.Context
	client   *podapi.Client
	run      *podapi.Process
	parts    chan []byte // for the run, one at a time; their end is that of the input
	end      func()      // closes parts
	sent     int64       // how much was sent or taken, from the first input on
	giveBack func()      // the turn
}

// Take takes the input of the process with an exec id. Leave it afterwards.
func (s *Senders) Take(ctx context.Context, c *podapi.Client, execID string) (*Input, error) {
	giveBack, err := s.turns.take(ctx, turnKey{c, execID})
	if err != nil {
		return nil, err
	}
	i := newInput(ctx, c, giveBack)
	if err := i.attach(execID, nil); err != nil {
		return nil, err
	}
	i.sent, _ = i.run.StdinTaken(ctx, -1) // nothing was sent yet, so this is where it begins
	return i, nil
}

// At takes the input of a process from an offset on: what it had taken before is not sent again. The error is
// EINVAL if it has not taken so much. Leave it afterwards.
func At(ctx context.Context, c *podapi.Client, execID string, offset int64) (*Input, error) {
	i := newInput(ctx, c, func() {})
	i.sent = offset
	if err := i.attach(execID, &offset); err != nil {
		return nil, err
	}
	return i, nil
}

func newInput(ctx context.Context, c *podapi.Client, giveBack func()) *Input {
	parts := make(chan []byte, 1)
	return &Input{ctx: ctx, client: c, parts: parts, end: sync.OnceFunc(func() { close(parts) }), giveBack: giveBack}
}

func (i *Input) attach(execID string, offset *int64) (err error) {
	o := podapi.AttachOptions{Stdin: &partsReader{parts: i.parts}, StdinOffset: offset, NoOutput: true}
	if i.run, err = i.client.Attach(i.ctx, execID, o); err != nil {
		i.giveBack()
	}
	return err
}

// Process returns the process, to which this call is attached.
func (i *Input) Process() *podapi.Process { return i.run }

// Leave leaves the process. Only then the parts end: it must not take that for the end of its input.
func (i *Input) Leave() {
	_ = i.run.Detach()
	i.end()
	i.giveBack()
}

// Send sends input, and returns when the process has taken it. The error is [ErrClosed] if it takes no more.
func (i *Input) Send(data []byte) error {
	switch {
	case !i.run.HasStdin():
		return ErrClosed
	case len(data) == 0:
		return nil
	}
	_, err := i.Put(data)
	return err
}

// Put is Send for input of which the process may have taken all before, also if it takes no more. It returns
// what the process has taken, also with [ErrClosed].
func (i *Input) Put(data []byte) (State, error) {
	if len(data) > 0 {
		i.parts <- data // which waits for nothing: what was put before was taken, or is why nothing more is put
		i.sent += int64(len(data))
	}
	taken, err := i.run.StdinTaken(i.ctx, i.sent-1)
	if errors.Is(err, podapi.ErrStdinClosed) {
		return i.Closed()
	}
	return State{taken, i.run.HasStdin(), i.run.HasTerminal()}, err
}

// Closed returns what a process has taken that takes no more; the agent has perhaps not said all. The error is
// [ErrClosed] if that is less than was put.
func (i *Input) Closed() (State, error) {
	now, err := Look(i.ctx, i.client, i.run.ID())
	switch {
	case err != nil:
	case now.Open: // the connection to the sandbox was lost
		err = podapi.ErrUnavailable
	case now.Taken < i.sent:
		err = ErrClosed
	}
	return now, err
}

// State is how the input of a process was when it was looked at.
type State struct {
	Taken    int64 // how much of it the process has taken, in bytes
	Open     bool  // it takes more
	Terminal bool  // it is a terminal
}

// Look returns the state of a process's input.
func Look(ctx context.Context, c *podapi.Client, execID string) (State, error) {
	p, err := c.Attach(ctx, execID, podapi.AttachOptions{NoFollow: true, NoOutput: true})
	if err != nil {
		return State{}, err
	}
	_ = p.Wait() // it is left at once, or has ended
	return Of(ctx, p), nil
}

// Of returns the state of a process's input when it was attached to.
func Of(ctx context.Context, p *podapi.Process) State {
	taken, _ := p.StdinTaken(ctx, -1)
	return State{taken, p.HasStdin() && p.Status() == nil, p.HasTerminal()}
}

// Open returns input for a process that is about to start: it stays open after the data until end is called.
func Open(data []byte) (in io.Reader, end func()) {
	parts := make(chan []byte, 1)
	if len(data) > 0 {
		parts <- data
	}
	return &partsReader{parts: parts}, sync.OnceFunc(func() { close(parts) })
}

// Close ends the input, if it has not ended yet.
func (i *Input) Close() error {
	if !i.run.HasStdin() {
		return nil
	}
	i.end()
	if _, err := i.run.StdinTaken(i.ctx, math.MaxInt64); !errors.Is(err, podapi.ErrStdinClosed) {
		return err
	}
	return nil
}

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
