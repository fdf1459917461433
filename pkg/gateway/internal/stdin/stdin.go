// Package stdin sends input to processes of a sandbox that somebody else has started, a part with each
// call, as the APIs of other products have it.
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
	parts    chan []byte // for the run, to which their end is that of the input
	end      func()      // closes parts
	sent     int64       // how much was sent, from the first input on
	giveBack func()      // the turn
}

// Take takes the input of the process with an exec id. Leave it afterwards.
func (s *Senders) Take(ctx context.Context, c *podapi.Client, execID string) (*Input, error) {
	giveBack, err := s.turns.take(ctx, turnKey{c, execID})
	if err != nil {
		return nil, err
	}
	i := &Input{ctx: ctx, client: c, parts: make(chan []byte), giveBack: giveBack}
	i.end = sync.OnceFunc(func() { close(i.parts) })
	if i.run, err = c.Attach(ctx, execID, podapi.AttachOptions{Stdin: &partsReader{parts: i.parts}, NoOutput: true}); err != nil {
		giveBack()
		return nil, err
	}
	i.sent, _ = i.run.StdinTaken(ctx, -1) // nothing was sent yet, so this is where it begins
	return i, nil
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
	select {
	case i.parts <- data:
	case <-i.ctx.Done():
		return i.ctx.Err()
	}
	i.sent += int64(len(data))
	return i.await(i.sent)
}

// await waits until the process has taken so much of its input.
func (i *Input) await(until int64) error {
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
		return ErrClosed
	}
	return nil
}

// look asks how much of its input the process has taken, and whether it may take more.
func (i *Input) look() (taken int64, open bool, err error) {
	p, err := i.client.Attach(i.ctx, i.run.ID(), podapi.AttachOptions{NoFollow: true, NoOutput: true})
	if err != nil {
		return 0, false, err
	}
	_ = p.Wait() // it is left at once, or has ended
	taken, _ = p.StdinTaken(i.ctx, -1)
	return taken, p.HasStdin() && p.Status() == nil, nil
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
