package podapi

import (
	"context"
	"io"
	"os"
	"time"
	"unicode/utf8"
)

// AttachOptions says what [Client.Attach] reads and writes, and for how long.
type AttachOptions struct {
	// Stdin, Stdout, Stderr and ResumeTimeout are as in [Cmd], but an error of a writer
	// leaves the process running. Stdin follows what the process was sent before, unless
	// StdinOffset says where it begins: then what was taken from there on is left out, and a
	// gap is syscall.EINVAL. If two callers send other input at once, bytes of both are lost.
	Stdin          io.Reader
	StdinOffset    *int64
	Stdout, Stderr io.Writer
	ResumeTimeout  time.Duration
	// StdoutOffset and StderrOffset are where the output begins, in bytes. Output
	// that the agent no longer has is skipped, and counted in [Process.Omitted].
	StdoutOffset, StderrOffset int64
	// StdoutAt and StderrAt are told where the next Write begins: the first, or one after a loss.
	StdoutAt, StderrAt func(offset int64)
	// NoFollow ends the run when all output so far has arrived, with [ErrDetached] if the
	// process still runs. NoOutput leaves the output out, so that it does not hold up the
	// process: the caller only waits for the end, or writes standard input.
	NoFollow, NoOutput bool
	// Screen, if not nil, is the size of the caller's terminal. The process's, if it has one,
	// gets it, and the output begins where the screen can be redrawn, whatever StdoutOffset is.
	Screen *TerminalSize
}

// asksMore reports whether the options need more than protocol 1.0.
func (o *AttachOptions) asksMore() bool { return o.NoFollow || o.NoOutput || o.Screen != nil }

// Attach follows the process with this exec id, which runs or has ended, whoever
// started it. If the agent does not know the id, it is fs.ErrNotExist. The end of ctx
// and an error of a writer detach, and it runs on.
func (c *Client) Attach(ctx context.Context, id string, opts AttachOptions) (*Process, error) {
	if !utf8.ValidString(id) {
		return nil, unknownID("attach", id)
	}
	p := newProcess(ctx, c, "attach", id)
	p.id, p.attach, p.resumeTimeout = id, &opts, opts.ResumeTimeout
	p.stdinFrom, p.stdoutTo, p.stderrTo = opts.Stdin, opts.Stdout, opts.Stderr
	p.outputAt = [2]func(int64){opts.StdoutAt, opts.StderrAt}
	s, err := p.open()
	if err != nil {
		return nil, err
	}
	go p.follow(s)
	return p, nil
}

// Detach ends the run and leaves the process running: Wait returns [ErrDetached].
// Output that came before is still written; input that the process does not take within
// a second may be lost. It takes [KillGrace] and two seconds at most. If the process has
// ended, Detach returns os.ErrProcessDone.
func (p *Process) Detach() error {
	if p.isOver() {
		return p.wasDetached()
	}
	if p.stdin != nil {
		p.stdin.flush(detachDrain)
		p.stdin.close()
	}
	if told := p.leaveRunning(); !told {
		p.giveUp() // without a connection, the agent need not be told
	}
	select {
	case <-p.done:
		return p.wasDetached()
	case <-time.After(KillGrace + time.Second): // a writer is blocked
		return nil
	}
}

// wasDetached returns Detach's error once the run has ended.
func (p *Process) wasDetached() error {
	if p.detached {
		return nil
	}
	return os.ErrProcessDone
}
