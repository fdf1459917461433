// Package console shows the terminal of a command in a sandbox in the terminal that
// this program runs in: a [Console]. Meanwhile it passes keys to the command
// unchanged, follows changes of the size, and lets the detach keys leave the
// command running. Afterwards it restores the terminal, however the command ended.
//
// Signals belong here because a terminal sends them: [UntilSignal] ends a context
// when one arrives.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/podapi"
)

// defaultSize is the size of a terminal that nobody looks at yet, or whose size is
// unknown.
var defaultSize = podapi.TerminalSize{Rows: 24, Columns: 80}

// A Console is the terminal that this program runs in, while it shows the terminal
// of a command in a sandbox. [Console.Connect] gives a command its streams before
// it starts, and [Console.Wait] waits for it. A nil Console stands for no terminal:
// it has the default size, and its methods leave the command's streams unchanged.
type Console struct {
	in    *os.File    // the terminal
	sized *os.File    // the terminal whose size counts
	modes *modeWriter // follows the output; nil if that is no terminal
	keys  []byte      // leave the command running
	// process is the command, once it has the console.
	process *podapi.Process
	// lent is closed once the command has the console. Before, nothing is read or
	// shown.
	lent chan struct{}
}

// New returns a console for the terminal in; nil if in is not a terminal. The
// command's output goes to out, which need not be a terminal. The keys leave the
// command running.
func New(in io.Reader, out io.Writer, keys DetachKeys) *Console {
	file, ok := in.(*os.File)
	if !ok || !bool(render.IsTerminal(file)) {
		return nil
	}
	c := &Console{in: file, sized: file, keys: keys.bytes, lent: make(chan struct{})}
	if render.IsTerminal(out) {
		c.sized = out.(*os.File)
		c.modes = newModeWriter(out)
	}
	return c
}

// Size returns the present size.
func (c *Console) Size() podapi.TerminalSize {
	if c == nil {
		return defaultSize
	}
	columns, rows, err := term.GetSize(int(c.sized.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return defaultSize
	}
	return podapi.TerminalSize{Rows: rows, Columns: columns}
}

// Streams are those of a command. In may be nil.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Connect returns the streams for a command that starts later and whose own streams
// are these. The console shows standard output if it can.
func (c *Console) Connect(own Streams) Streams {
	if c == nil {
		return own
	}
	var in io.Reader = c.in
	if len(c.keys) > 0 {
		in = &keyReader{from: c.in, keys: c.keys, leave: func() {
			_ = c.process.Detach() // if the command has ended, Wait says so
		}}
	}
	if c.modes != nil {
		own.Out = c.modes
	}
	return Streams{In: &lentReader{c, in}, Out: &lentWriter{c, own.Out}, Err: own.Err}
}

// Wait waits for the end of a command that has started, and lends it the console.
// If the terminal cannot be lent, the command is left running.
func (c *Console) Wait(ctx context.Context, p *podapi.Process) error {
	if c == nil {
		return p.Wait()
	}
	takeBack, err := c.lend(ctx, p)
	if err != nil {
		return errors.Join(err, p.Detach())
	}
	defer takeBack()
	err = p.Wait()
	c.restore(p.Status())
	return err
}

// A lentReader and a lentWriter wait until the console is lent.
type (
	lentReader struct {
		console *Console
		from    io.Reader
	}
	lentWriter struct {
		console *Console
		to      io.Writer
	}
)

func (r *lentReader) Read(p []byte) (int, error) {
	<-r.console.lent
	return r.from.Read(p)
}

func (w *lentWriter) Write(p []byte) (int, error) {
	<-w.console.lent
	return w.to.Write(p)
}

// lend hands the console over to the command: keys go to it unchanged, and the
// command's terminal follows the size. takeBack, or the end of ctx, ends this.
// Until then a second signal does not end the program.
func (c *Console) lend(ctx context.Context, p *podapi.Process) (takeBack func(), err error) {
	c.process = p
	defer close(c.lent)
	release := DelaySecond()
	state, err := term.MakeRaw(int(c.in.Fd()))
	if err != nil {
		release()
		return nil, fmt.Errorf("cannot set the terminal to raw mode: %w", err)
	}
	restoreOutput := func() {}
	if c.modes != nil {
		restoreOutput = rawOutput(c.sized)
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		<-ctx.Done()
		_ = term.Restore(int(c.in.Fd()), state) // it may have been closed
		restoreOutput()
		release()
	})
	tasks.Go(func() { c.follow(ctx, p) })
	return func() { cancel(); tasks.Wait() }, nil
}

// follow gives the command's terminal each new size, until ctx ends.
func (c *Console) follow(ctx context.Context, p *podapi.Process) {
	last := podapi.TerminalSize{}
	onResize(ctx, func() {
		if size := c.Size(); size != last {
			last = size
			_ = p.Resize(size) // it fails only if the command has ended
		}
	})
}

// restore undoes the changes to the terminal's modes by a command that did not exit by
// itself, and begins a new line.
func (c *Console) restore(status *podapi.ExitStatus) {
	if c.modes == nil || status != nil && status.Reason == podapi.Exited {
		return
	}
	_ = errors.Join(c.modes.reset(), newLine(c.modes.to)) // there is nowhere else to report it
}

func newLine(w io.Writer) error {
	_, err := io.WriteString(w, "\r\n")
	return err
}
