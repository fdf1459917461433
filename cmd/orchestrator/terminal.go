package main

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

// defaultSize is the size of a terminal that nobody looks at yet, or that does
// not know its own.
var defaultSize = podapi.TerminalSize{Rows: 24, Columns: 80}

// A console is the terminal that this program runs in, while it shows that of a
// command in a sandbox.
type console struct {
	in    *os.File    // the terminal
	sized *os.File    // whose size counts
	modes *modeWriter // what the command did to the output; nil if that is no terminal
	keys  []byte      // by which the command is left running
	// process is the command, once the console is lent.
	process *podapi.Process
	// lent is closed once the console is the command's: before, nothing is read
	// or shown.
	lent chan struct{}
}

// console returns the terminal that standard input is, nil if it is none.
func (a *app) console(keys detachKeys) *console {
	in, ok := a.in.(*os.File)
	if !ok || !bool(render.IsTerminal(in)) {
		return nil
	}
	t := &console{in: in, sized: in, keys: keys.bytes, lent: make(chan struct{})}
	if a.terminal {
		t.sized = a.out.(*os.File)
		t.modes = newModeWriter(a.out)
	}
	return t
}

// size returns the present size; a console that is nil has the default.
func (t *console) size() podapi.TerminalSize {
	if t == nil {
		return defaultSize
	}
	columns, rows, err := term.GetSize(int(t.sized.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return defaultSize
	}
	return podapi.TerminalSize{Rows: rows, Columns: columns}
}

// connect returns the streams of a command that starts later, whose own would be these.
func (t *console) connect(own streams) streams {
	var in io.Reader = t.in
	if len(t.keys) > 0 {
		in = &keyReader{from: t.in, keys: t.keys, leave: func() {
			_ = t.process.Detach() // that it has ended already is what Wait says
		}}
	}
	if t.modes != nil {
		own.out = t.modes
	}
	return streams{in: &lentReader{t, in}, out: &lentWriter{t, own.out}, err: own.err}
}

// A lentReader and a lentWriter wait until the console is lent.
type (
	lentReader struct {
		console *console
		from    io.Reader
	}
	lentWriter struct {
		console *console
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

// lend hands the console over to the command, which has started: what is typed
// goes there unchanged, and its terminal follows the size. The function that is
// returned takes it back. So does the end of ctx, and no second signal ends the
// program before that.
func (t *console) lend(ctx context.Context, p *podapi.Process) (takeBack func(), err error) {
	t.process = p
	defer close(t.lent)
	release := delaySecond()
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		release()
		return nil, fmt.Errorf("cannot set the terminal to raw mode: %w", err)
	}
	restoreOutput := func() {}
	if t.modes != nil {
		restoreOutput = rawOutput(t.sized)
	}
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		<-ctx.Done()
		_ = term.Restore(int(t.in.Fd()), state) // it may have been closed
		restoreOutput()
		release()
	})
	tasks.Go(func() { t.follow(ctx, p) })
	return func() { cancel(); tasks.Wait() }, nil
}

// follow gives the command's terminal each new size, until ctx ends.
func (t *console) follow(ctx context.Context, p *podapi.Process) {
	last := podapi.TerminalSize{}
	onResize(ctx, func() {
		if size := t.size(); size != last {
			last = size
			_ = p.Resize(size) // it has ended, and nobody looks
		}
	})
}

// settle undoes what a command that did not exit by itself left of the
// terminal, and begins a new line there.
func (t *console) settle(status *podapi.ExitStatus) {
	if t.modes == nil || status != nil && status.Reason == podapi.Exited {
		return
	}
	_ = errors.Join(t.modes.reset(), newLine(t.modes.to)) // there is nowhere else to say it
}

func newLine(w io.Writer) error {
	_, err := io.WriteString(w, "\r\n")
	return err
}
