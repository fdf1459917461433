package podapi

import (
	"context"
	"io"
	"sync"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// stdinSender reads standard input, and keeps what the process has not taken: at
// most StdinWindow. Each new stream sends that again.
type stdinSender struct {
	from   io.Reader
	start  int64 // the offset at which the input begins
	mu     sync.Mutex
	change sync.Cond
	kept   []byte // kept[head:] begins at the offset acked
	head   int
	acked  int64 // how much the process has taken
	sent   int64 // how much was sent on the present stream
	stream *execStream
	eof    bool  // the input is over
	busy   bool  // a chunk is being sent
	closed bool  // the process takes no more
	err    error // why reading the input failed
}

// newStdinSender returns a sender whose input begins at this offset.
func newStdinSender(from io.Reader, offset int64) *stdinSender {
	s := &stdinSender{from: from, start: offset, acked: offset, sent: offset}
	s.change.L = &s.mu
	return s
}

// read reads and keeps the input until it ends or nobody takes it. To the process,
// a failed input looks like an ended one, but Wait reports the error.
func (s *stdinSender) read() {
	buffer, next := make([]byte, stdinFirst), s.start
	for {
		n, err := s.from.Read(buffer)
		next += int64(n)
		if !s.keep(buffer[:n], next, err) || err != nil {
			return
		}
		if n == stdinFirst {
			buffer = make([]byte, stdinChunk)
		}
	}
}

// keep waits until there is room for data, which ends at the offset end, and keeps
// its bytes. It leaves out those that the process has already taken from another
// caller. It returns false when the process takes no more.
func (s *stdinSender) keep(data []byte, end int64, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && end-s.acked > wire.StdinWindow {
		s.change.Wait()
	}
	data = data[max(0, int64(len(data))-max(0, end-s.acked)):]
	if s.head > 0 && len(s.kept)+len(data) > cap(s.kept) {
		s.kept = s.kept[:copy(s.kept, s.kept[s.head:])]
		s.head = 0
	}
	s.kept = append(s.kept, data...)
	s.eof = err != nil
	if err != io.EOF && !s.closed { // once closed is set, the input may be closed during a Read
		s.err = err
	}
	s.change.Broadcast()
	return !s.closed
}

// begin starts to send the input on a stream, from what the process has taken.
func (s *stdinSender) begin(stream *execStream, taken int64) {
	s.acknowledge(taken, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream, s.sent = stream, s.acked
}

// feed sends the input on a stream, until either ends.
func (s *stdinSender) feed(stream *execStream) {
	var buffer []byte
	for {
		chunk := s.next(stream, buffer)
		if chunk == nil || stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: chunk}}) != nil || chunk.Eof {
			return
		}
		buffer = chunk.Data
	}
}

// next waits for the next chunk to send on the stream, and copies it into buffer.
// It returns nil when there are no more.
func (s *stdinSender) next(stream *execStream, buffer []byte) *pb.StdinChunk {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	s.change.Broadcast() // for flush
	for !s.closed && s.stream == stream && s.unsent() == 0 && !s.eof {
		s.change.Wait()
	}
	if s.closed || s.stream != stream {
		return nil
	}
	n := s.unsent()
	data := append(buffer[:0], s.kept[len(s.kept)-n:][:min(n, stdinChunk)]...)
	chunk := &pb.StdinChunk{Data: data, Offset: s.sent, Eof: s.eof && len(data) == n}
	s.sent += int64(len(data))
	s.busy = true
	return chunk
}

// flush waits until all input read so far has been sent, but no longer than limit,
// and not for another stream.
func (s *stdinSender) flush(limit time.Duration) {
	late := false
	timer := time.AfterFunc(limit, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		late = true
		s.change.Broadcast()
	})
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for !late && !s.closed && s.stream != nil && (s.busy || s.unsent() > 0) {
		s.change.Wait()
	}
}

// unsent is how many kept bytes have not been sent on the stream.
func (s *stdinSender) unsent() int {
	return max(0, len(s.kept)-s.head-int(s.sent-s.acked))
}

// leave stops sending on a stream.
func (s *stdinSender) leave(stream *execStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream == stream {
		s.stream = nil
	}
	s.change.Broadcast()
}

// acknowledge notes how much the process has taken, and whether it takes more. It
// reports whether the process has taken more than was known.
func (s *stdinSender) acknowledge(offset int64, closed bool) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more = offset > s.acked
	if more {
		s.head = min(len(s.kept), s.head+int(min(offset-s.acked, wire.StdinWindow)))
		s.acked = offset
		s.sent = max(s.sent, offset)
	}
	if s.head == len(s.kept) {
		s.kept, s.head = s.kept[:0], 0
	}
	s.closed = s.closed || closed
	s.change.Broadcast()
	return more
}

// await waits until the process has taken more than after, or takes no more, or ctx ends.
func (s *stdinSender) await(ctx context.Context, after int64) (taken int64, err error) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.change.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.acked <= after && !s.closed && ctx.Err() == nil {
		s.change.Wait()
	}
	switch {
	case s.acked > after:
		return s.acked, nil
	case s.closed:
		return s.acked, ErrStdinClosed
	}
	return s.acked, ctx.Err()
}

// StdinTaken waits until the process has taken more than after bytes of standard input, from
// its first on, and returns how many; [ErrStdinClosed] if it takes no more from this run.
func (p *Process) StdinTaken(ctx context.Context, after int64) (int64, error) {
	switch {
	case p.stdin != nil:
		return p.stdin.await(ctx, after)
	case p.started.GetStdin() > after:
		return p.started.GetStdin(), nil
	}
	return p.started.GetStdin(), ErrStdinClosed
}

// close ends the sending.
func (s *stdinSender) close() { s.acknowledge(0, true) }

// failure returns why reading the input failed; nil if it did not.
func (s *stdinSender) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
