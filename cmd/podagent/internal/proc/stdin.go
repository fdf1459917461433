package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// input is the standard input of a process.
type input struct {
	// turn holds a token for the one writer.
	turn chan struct{}
	// terminal is set where the input is a terminal's. Its master is also the
	// output, and so is not closed here.
	terminal *terminal

	mu sync.Mutex
	// file is nil when standard input is closed.
	file *os.File
	// ended says that the process has ended, or reads no more.
	ended bool
	// unfinished says that the last byte accepted was not the end of a line.
	unfinished bool
	// accepted is the number of bytes that the pipe took.
	accepted int64
	wide     bool
}

func newInput(std *stdio) *input {
	return &input{turn: make(chan struct{}, 1), file: std.stdin, terminal: std.terminal}
}

// WriteStdin writes data, whose first byte has the given offset in standard
// input, and returns the number of bytes accepted so far. Bytes that were
// accepted before are skipped, so that a write may be repeated; an offset
// after them is [syscall.EINVAL].
//
// It blocks while the pipe is full, until ctx ends (with its error), or the
// process ends or closes its standard input ([ErrStdinClosed]). The number is
// right in every case.
func (p *Process) WriteStdin(ctx context.Context, offset int64, data []byte) (next int64, err error) {
	select {
	case p.in.turn <- struct{}{}:
		defer func() { <-p.in.turn }()
	case <-ctx.Done():
		return p.in.next(), ctx.Err()
	}
	next = p.in.next()
	if offset < 0 || offset > next {
		return next, fmt.Errorf("cannot write to exec %s at offset %d: its standard input has %d bytes: %w",
			p.id, offset, next, syscall.EINVAL)
	}
	if skip := next - offset; skip < int64(len(data)) {
		err = p.in.write(ctx, data[skip:])
	}
	return p.in.next(), err
}

// CloseStdin closes standard input: the process reads its end after what was
// written. A write that is blocked ends with [ErrStdinClosed]. Closing it
// again, or where it was never open, does nothing.
//
// A terminal has no end. It gets the character for it instead, as if a person
// had typed Ctrl-D: twice in an unfinished line. A program that reads single
// keys may take that for something else.
func (p *Process) CloseStdin() error { return p.in.close() }

// StdinOpen reports whether standard input takes more.
func (p *Process) StdinOpen() bool {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.in.file != nil
}

// StdinAccepted returns the number of bytes of standard input that were
// accepted so far. It never blocks. Bytes of a [Process.WriteStdin] under way
// count when it returns. A caller may write them again from here on: those that
// were accepted meanwhile are skipped.
func (p *Process) StdinAccepted() int64 { return p.in.next() }

func (in *input) next() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.accepted
}

// write writes all of b unless it fails. The caller has the turn.
func (in *input) write(ctx context.Context, b []byte) error {
	in.mu.Lock()
	f := in.file
	in.mu.Unlock()
	if f == nil {
		return ErrStdinClosed
	}
	if len(b) > journal.ChunkSize && !in.wide && in.terminal == nil {
		in.wide = true
		enlarge(f)
	}
	n, err := writeUntil(ctx, f, b)
	closed := in.accept(b[:n])
	switch {
	case err == nil:
		return nil
	case closed:
		return ErrStdinClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case in.isGone(err):
		in.closeForGood()
		return ErrStdinClosed
	}
	return err
}

// accept counts what was written, and reports whether standard input was
// closed meanwhile.
func (in *input) accept(b []byte) (closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.accepted += int64(len(b))
	if len(b) > 0 {
		in.unfinished = !bytes.ContainsRune([]byte("\n\r\x04"), rune(b[len(b)-1]))
	}
	return in.file == nil
}

// isGone reports whether an error says that nobody reads the input any more. For a
// terminal that no process has open that is EIO.
func (in *input) isGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) ||
		in.terminal != nil && errors.Is(err, syscall.EIO)
}

// writeUntil writes b, or as much as the pipe takes until ctx ends.
func writeUntil(ctx context.Context, f *os.File, b []byte) (int, error) {
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		f.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	n, err := f.Write(b)
	if !stop() {
		<-interrupted
		f.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// close closes standard input. The process still reads what was written.
func (in *input) close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	f := in.file
	if f == nil {
		return nil
	}
	in.file = nil
	if in.terminal == nil {
		return f.Close()
	}
	f.SetWriteDeadline(time.Unix(1, 0))
	go in.typeEnd(f)
	return nil
}

// closeForGood closes standard input for good: the process has ended, or reads no more.
func (in *input) closeForGood() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	switch {
	case in.terminal != nil:
		in.terminal.master.SetWriteDeadline(time.Unix(1, 0))
	case in.file != nil:
		in.file.Close()
	}
	in.file = nil
}

// typeEnd writes a terminal's end of input. It waits for the writer that the
// deadline stopped, and then, like any writer, for the process to read.
func (in *input) typeEnd(f *os.File) {
	in.turn <- struct{}{}
	defer func() { <-in.turn }()
	in.mu.Lock()
	unfinished, ended := in.unfinished, in.ended
	if !ended {
		f.SetWriteDeadline(time.Time{})
	}
	in.mu.Unlock()
	if !ended {
		f.Write(in.terminal.endOfInput(unfinished)) // the end of the process is the only error
	}
}
