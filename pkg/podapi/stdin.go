package podapi

import (
	"io"
	"sync"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// stdinSender reads standard input and sends it as far as the window lets it.
type stdinSender struct {
	from   io.Reader
	mu     sync.Mutex
	change sync.Cond
	sent   int64
	acked  int64
	closed bool  // the process takes no more
	err    error // why reading the input failed
}

func newStdinSender(from io.Reader) *stdinSender {
	s := &stdinSender{from: from}
	s.change.L = &s.mu
	return s
}

// run sends until the input ends or nobody takes it. An input that fails looks
// to the process like one that is over, but Wait reports it.
func (s *stdinSender) run(send func(*pb.ExecRequest) error) {
	buffer := make([]byte, stdinChunk)
	for {
		n, err := s.from.Read(buffer)
		if n == 0 && err == nil {
			continue
		}
		if err != nil && err != io.EOF {
			s.fail(err)
		}
		offset, ok := s.reserve(n)
		if !ok {
			return
		}
		chunk := &pb.StdinChunk{Data: buffer[:n], Offset: offset, Eof: err != nil}
		if send(&pb.ExecRequest{Kind: &pb.ExecRequest_Stdin{Stdin: chunk}}) != nil || err != nil {
			return
		}
	}
}

// reserve waits until n bytes more fit into the window, and returns their
// offset; or false when the process takes no more.
func (s *stdinSender) reserve(n int) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && s.sent+int64(n)-s.acked > StdinWindow {
		s.change.Wait()
	}
	offset := s.sent
	s.sent += int64(n)
	return offset, !s.closed
}

// acknowledge notes what the process has taken, and whether it takes more.
func (s *stdinSender) acknowledge(offset int64, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acked = max(s.acked, offset)
	s.closed = s.closed || closed
	s.change.Broadcast()
}

func (s *stdinSender) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// failure returns why reading the input failed, nil if it did not.
func (s *stdinSender) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
