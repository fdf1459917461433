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
	// apart is closed when a call of its own has said that the caller detaches; nil if
	// there is none.
	apart chan struct{}
}

// use sends the first message and the caller's wishes on a new stream, and closes its
// request side if nothing can follow. It does not ask for a process that is to be killed.
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
	if takesNothing(first.GetStart()) {
		s.closed = true
		return s.call.CloseSend()
	}
	return nil
}

// takesNothing reports whether a command takes neither input nor sizes. If its stream's
// request side stayed open, the transport would reset the stream at its end, in a message of
// its own for each command. Only a detaching caller would have needed it: see detachApart.
func takesNothing(start *pb.ExecStart) bool {
	return start != nil && !start.Stdin && start.Terminal == nil
}

// answer notes that the agent has answered the first message.
func (c *control) answer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = true
}

// wantSize notes a size of the terminal.
func (c *control) wantSize(size TerminalSize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size = &size
	if c.stream != nil && !c.stream.closed {
		c.tell()
	}
}

// wantDetach notes that the caller detaches. It reports whether there was a stream. If
// that can carry nothing more, say tells the agent.
func (c *control) wantDetach(say func(*execStream)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detach = true
	switch {
	case c.stream == nil:
		return c.apart != nil
	case !c.stream.closed:
		c.tell()
	case c.apart == nil:
		stream, told := c.stream, make(chan struct{})
		c.apart = told
		go func() {
			defer close(told)
			say(stream)
		}()
	}
	return true
}

// uses reports whether a stream has not ended.
func (c *control) uses(s *execStream) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stream == s
}

// awaitApart waits until the agent knows that the caller detaches, if a call of its own
// tells it.
func (c *control) awaitApart() {
	c.mu.Lock()
	apart := c.apart
	c.mu.Unlock()
	if apart != nil {
		<-apart
	}
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
