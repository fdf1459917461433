package podapi

import (
	"context"
	"sync"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// control is what the caller wants from the process beside its input and output.
// The agent does not acknowledge these requests, so each new stream repeats those
// that may not have arrived.
type control struct {
	mu       sync.Mutex
	stream   *execStream // nil while there is none
	asked    bool        // the agent may have got the first message
	answered bool        // the agent has answered it
	kill     bool
	detach   bool
	size     *TerminalSize
}

// use sends the first message and the caller's wishes on a new stream. It does not
// ask for a process that is to be killed.
func (c *control) use(s *execStream, first *pb.ExecRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kill && !c.answered {
		return context.Canceled
	}
	c.stream, c.asked = s, true
	if err := s.send(first); err != nil {
		return err
	}
	c.tell()
	return nil
}

// answer notes that the agent has answered the first message.
func (c *control) answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
}

// want changes the caller's wishes. It reports whether there was a stream to send
// them on.
func (c *control) want(change func(*control)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
	if c.stream == nil {
		return false
	}
	c.tell()
	return true
}

// wantKill notes that the process is to be killed. It reports whether that is new, and
// whether the agent may know of the process.
func (c *control) wantKill() (first, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = !c.kill
	c.kill = true
	return first, c.asked
}

// tell sends the caller's wishes. If that fails, the next stream sends them again.
func (c *control) tell() {
	if c.size != nil {
		_ = c.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Resize{Resize: c.size.proto()}})
	}
	if c.detach {
		_ = c.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Detach{Detach: &pb.ExecDetach{}}})
	}
}

// leave notes that a stream has ended.
func (c *control) leave(s *execStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == s {
		c.stream = nil
	}
}

func (c *control) isAnswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}

func (c *control) killing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kill
}

func (c *control) detaching() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.detach
}
