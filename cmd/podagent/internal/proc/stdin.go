package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// input is the standard input of a process.
type input struct {
	// turn holds a token for the one writer.
	turn chan struct{}

	mu sync.Mutex
	// file is nil when standard input is closed.
	file *os.File
	// accepted is the number of bytes that the pipe took.
	accepted int64
	wide     bool
}

func newInput(f *os.File) *input {
	return &input{turn: make(chan struct{}, 1), file: f}
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
func (p *Process) CloseStdin() error { return p.in.close() }

// StdinAccepted returns the number of bytes of standard input that were
// accepted so far. It never blocks. Bytes of a [Process.WriteStdin] under way
// count when that returns: to write them again from here on is safe, as those
// that it did get in are skipped.
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
	if len(b) > chunkSize && !in.wide {
		in.wide = true
		enlarge(f)
	}
	n, err := writeUntil(ctx, f, b)
	in.mu.Lock()
	in.accepted += int64(n)
	in.mu.Unlock()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed):
		in.close()
		return ErrStdinClosed
	}
	return err
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

func (in *input) close() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.file == nil {
		return nil
	}
	f := in.file
	in.file = nil
	return f.Close()
}
