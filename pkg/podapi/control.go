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
	// rejoin says that a stream was left only because it could not carry a wish.
	rejoin bool
}

// use sends the first message and the caller's wishes on a new stream. It does not
// ask for a process that is to be killed.
func (c *control) use(s *execStream, first *pb.ExecRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kill && !c.answered {
		return context.Canceled
	}
	c.stream, c.asked, c.rejoin = s, true, false
	if err := s.send(first); err != nil {
		return err
	}
	c.tell()
	if takesNothing(first.GetStart()) && !c.detach {
		s.closed = true
		return s.call.CloseSend()
	}
	return nil
}

// takesNothing reports whether nothing follows the start of a command, unless the caller
// detaches. Then the stream's request side is closed at once, with the start. The transport
// would otherwise reset the stream at its end, in a message of its own for each command.
func takesNothing(start *pb.ExecStart) bool {
	return start != nil && !start.Stdin && start.Terminal == nil
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

// tell sends the caller's wishes. If that fails, the next stream sends them again. A stream
// that can carry no wish is left for one that can.
func (c *control) tell() {
	if c.stream.closed {
		c.rejoin = true
		c.stream.hangUp()
		return
	}
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

// left reports whether the caller has detached, and no further stream has to say so.
func (c *control) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.detach && !c.rejoin
}

func (c *control) detaching() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.detach
}
