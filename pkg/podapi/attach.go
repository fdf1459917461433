package podapi

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrDetached says that the caller has detached from a process, which runs on.
var ErrDetached = errors.New("detached from the process, which runs on")

// AttachOptions says where [Client.Attach] begins, and for how long it stays.
type AttachOptions struct {
	// Stdout and Stderr are the offsets in bytes from which on the output is
	// wanted. What the agent no longer has is skipped, and counted in
	// [Cmd.Omitted].
	Stdout, Stderr int64
	// NoFollow ends the run when all output so far has come. If the process
	// runs on, Wait returns [ErrDetached].
	NoFollow bool
	// NoOutput is for who only waits for the end, or writes standard input: no
	// output comes, and the process is not held up by it.
	NoOutput bool
	// Screen, if not nil, is the size of the caller's terminal, for a process
	// that has one, too: its output begins where the screen can be drawn anew,
	// whatever Stdout is, and its terminal gets this size.
	Screen *TerminalSize
}

// asksMore reports whether the options need more than protocol 1.0.
func (o *AttachOptions) asksMore() bool { return o.NoFollow || o.NoOutput || o.Screen != nil }

// Attach returns a command that is the process with this exec id, which runs or
// has ended, whoever started it. Set Stdin, Stdout and Stderr, then Run it, or
// Start it and Wait: what these are for a command that was started here they
// are for it, but for three things. Start fails with fs.ErrNotExist if the agent
// does not know the id. The end of ctx, and an error of a writer, detach from
// the process and leave it running. Args, and all that says how a command is
// started, is not used.
//
// Standard input goes on where it is: Stdin is read from the start, and follows
// what the process was sent before. It has one writer at a time; when two write
// at once, bytes of both are lost.
func (c *Client) Attach(ctx context.Context, id string, opts AttachOptions) *Cmd {
	return &Cmd{client: c, ctx: ctx, ID: id, attach: &opts}
}

// Detach leaves the process running, and ends the run: Wait returns
// [ErrDetached]. Output that came before is still written. What was read from
// Stdin and the process does not take within a second may be lost. If the process ended before,
// Detach returns os.ErrProcessDone, and Wait how. It returns within [KillGrace],
// but for a moment.
func (c *Cmd) Detach() error {
	if c.started == nil {
		return errors.New("podapi: command not started")
	}
	select {
	case <-c.done:
		return c.wasDetached()
	default:
	}
	if c.stdin != nil {
		c.stdin.settle(detachDrain)
		c.stdin.close()
	}
	if told := c.endWith(func(wanted *control) { wanted.detach = true }); !told {
		c.giveUp() // there is no connection: the agent need not be told
	}
	select {
	case <-c.done:
		return c.wasDetached()
	case <-time.After(KillGrace + time.Second): // a writer does not return
		return nil
	}
}

// wasDetached returns what Detach does once the run has ended.
func (c *Cmd) wasDetached() error {
	if c.err == ErrDetached {
		return nil
	}
	return os.ErrProcessDone
}
