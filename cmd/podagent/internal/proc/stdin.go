package proc

import (
	"bytes"
	"cmp"
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
	// terminal is set if the input is a terminal. Its master is also the output, and so
	// is not closed here.
	terminal *terminal

	mu sync.Mutex
	// file is nil when standard input is closed.
	file *os.File
	// ended says that the process has ended, or reads no more.
	ended bool
	wide  bool

	// count guards what follows. It is held while the kernel takes bytes, so that what
	// the process may have read has been counted: a new caller continues there.
	count sync.Mutex
	// unfinished says that the last byte accepted was not the end of a line.
	unfinished bool
	// accepted is the number of bytes that the pipe took.
	accepted int64
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
// The input of a terminal cannot be closed. CloseStdin types the end-of-input character
// instead, as a person types Ctrl-D: twice in an unfinished line. A program that reads
// single keys may take that for something else.
func (p *Process) CloseStdin() error { return p.in.close() }

// StdinOpen reports whether standard input accepts more.
func (p *Process) StdinOpen() bool {
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	return p.in.file != nil
}

// StdinAccepted returns the number of bytes of standard input that were
// accepted so far: at least those that the process has read. It never waits for the
// process. A caller may repeat a [Process.WriteStdin] under way from here on: bytes that
// were accepted meanwhile are skipped.
func (p *Process) StdinAccepted() int64 { return p.in.next() }

func (in *input) next() int64 {
	in.count.Lock()
	defer in.count.Unlock()
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
	err := in.writeUntil(ctx, f, b)
	switch {
	case err == nil:
		return nil
	case in.isClosed():
		return ErrStdinClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case in.isGone(err):
		in.closeForGood()
		return ErrStdinClosed
	}
	return err
}

func (in *input) isClosed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.file == nil
}

// isGone reports whether an error says that nobody reads the input any more. The error
// of a terminal that no process has open is EIO.
func (in *input) isGone(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed) ||
		in.terminal != nil && errors.Is(err, syscall.EIO)
}

// writeUntil writes b, or as much as the pipe takes until ctx ends.
func (in *input) writeUntil(ctx context.Context, f *os.File, b []byte) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		f.SetWriteDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	var failed error
	err = raw.Write(func(fd uintptr) (done bool) {
		b, failed = in.give(int(fd), b)
		return failed != syscall.EAGAIN
	})
	if !stop() {
		<-interrupted
		f.SetWriteDeadline(time.Time{})
	}
	return cmp.Or(err, failed)
}

// give writes as much of b as the pipe takes at once, and returns the rest.
func (in *input) give(fd int, b []byte) (rest []byte, err error) {
	in.count.Lock()
	defer in.count.Unlock()
	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return b, err
		}
		in.accepted += int64(n)
		in.unfinished = !bytes.ContainsRune([]byte("\n\r\x04"), rune(b[n-1]))
		b = b[n:]
	}
	return nil, nil
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
	in.count.Lock()
	unfinished := in.unfinished
	in.count.Unlock()
	in.mu.Lock()
	ended := in.ended
	if !ended {
		f.SetWriteDeadline(time.Time{})
	}
	in.mu.Unlock()
	if !ended {
		f.Write(in.terminal.endOfInput(unfinished)) // fails only if the process has ended
	}
}
