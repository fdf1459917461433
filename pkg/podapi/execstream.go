package podapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// execStream is one call of Exec: as much of a run as one connection lasts.
type execStream struct {
	call    grpc.BidiStreamingClient[pb.ExecRequest, pb.ExecResponse]
	hangUp  context.CancelFunc
	sending sync.Mutex
	feeding sync.WaitGroup // what sends standard input
}

func (s *execStream) send(m *pb.ExecRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.call.Send(m)
}

// dial opens a stream, unless ctx ends before. If it fails, nothing was sent.
func (c *Cmd) dial(ctx context.Context) (*execStream, error) {
	life, hangUp := context.WithCancel(c.life)
	stop := context.AfterFunc(ctx, hangUp)
	call, err := c.client.processes.Exec(life)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		hangUp()
		if _, ok := status.FromError(err); !ok {
			err = &noWayError{err}
		}
		return nil, err
	}
	return &execStream{call: call, hangUp: hangUp}, nil
}

// noWayError is the transport's last word: there is no way to the agent.
type noWayError struct{ error }

func (e *noWayError) Unwrap() error { return e.error }

// greet sends the first message, and returns when the agent has answered it,
// or ctx has ended. It closes a stream that it fails on.
func (c *Cmd) greet(ctx context.Context, s *execStream, first *pb.ExecRequest) error {
	defer context.AfterFunc(ctx, s.hangUp)()
	var r *pb.ExecResponse
	err := c.control.use(s, first)
	if err == nil || err == io.EOF { // then Recv says why
		r, err = s.call.Recv()
	}
	if err == nil && r.GetStarted() == nil {
		err = errors.New("agent did not begin with started")
	}
	if err != nil {
		c.leave(s)
		return err
	}
	c.begin(s, r.GetStarted())
	return nil
}

// begin begins to use a stream that the agent has answered.
func (c *Cmd) begin(s *execStream, started *pb.ExecStarted) {
	if c.started == nil {
		c.started, c.boot = started, started.BootId
		c.output = newOutputs(c.Stdout, c.Stderr, c.fail)
		base := int64(0)
		if c.attach != nil {
			c.output.from(c.attach)
			base = started.Stdin
		}
		if c.Stdin != nil {
			c.stdin = newStdinSender(c.Stdin, base)
			defer func() { go c.stdin.read(base) }() // once there is where to send it
		}
	}
	if c.stdin != nil {
		c.stdin.begin(s, started.Stdin)
		s.feeding.Go(func() { c.stdin.feed(s) })
	}
}

// leave ends a stream.
func (c *Cmd) leave(s *execStream) {
	c.control.leave(s)
	s.hangUp()
	if c.stdin != nil {
		c.stdin.leave(s)
	}
	s.feeding.Wait()
}

// receive takes the messages of a stream, and returns the final one.
func (c *Cmd) receive(s *execStream) (*pb.ExecResponse, error) {
	for {
		r, err := s.call.Recv()
		if err != nil {
			return nil, err
		}
		c.tries = 0
		switch kind := r.Kind.(type) {
		case *pb.ExecResponse_Stdout:
			err = c.output.take(0, kind.Stdout)
		case *pb.ExecResponse_Stderr:
			err = c.output.take(1, kind.Stderr)
		case *pb.ExecResponse_Stdin:
			if c.stdin != nil {
				c.stdin.acknowledge(kind.Stdin.Offset, kind.Stdin.Closed)
			}
		case *pb.ExecResponse_Exit, *pb.ExecResponse_Detached:
			return r, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// startRequest returns the first message of a command that is not known to have
// started, for the agent of this boot id.
func (c *Cmd) startRequest(boot string) (*pb.ExecRequest, error) {
	if c.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		c.ID = id.String()
	}
	start := &pb.ExecStart{
		ExecId: c.ID, BootId: boot, Argv: toBytes(c.Args), Script: []byte(c.Script), Dir: []byte(c.Dir),
		Env: toBytes(c.Env), ClearEnv: c.ClearEnv, Stdin: c.Stdin != nil, Timeout: int64(c.Timeout),
		Rlimits: rlimitsToProto(c.Rlimits), Reader: c.reader,
	}
	if c.Terminal != nil {
		if err := c.Terminal.check(); err != nil {
			return nil, err
		}
		start.Terminal = c.Terminal.proto()
	}
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: start}}, nil
}

// attachRequest returns the first message that goes on where the output is.
func (c *Cmd) attachRequest() *pb.ExecRequest {
	attach := &pb.ExecAttach{ExecId: c.ID, BootId: c.boot, Reader: c.reader}
	if c.attach != nil {
		attach.NoFollow, attach.NoOutput = c.attach.NoFollow, c.attach.NoOutput
		attach.Stdout, attach.Stderr = c.attach.Stdout, c.attach.Stderr
		if c.attach.Screen != nil && (c.output == nil || c.output.floating) {
			attach.Screen = c.attach.Screen.proto()
		}
	}
	if c.output != nil {
		attach.Stdout, attach.Stderr = c.output.next[0], c.output.next[1]
	}
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Attach{Attach: attach}}
}

// control is what the caller wants of the process beside its input and output.
// Nothing acknowledges it, so that each stream is told again what may not have
// arrived by the one before.
type control struct {
	mu     sync.Mutex
	stream *execStream // nil while there is none
	kill   bool
	detach bool
	size   *TerminalSize
}

// use tells a new stream its first message, and what is wanted.
func (c *control) use(s *execStream, first *pb.ExecRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream = s
	if err := s.send(first); err != nil {
		return err
	}
	c.tell()
	return nil
}

// want changes what is wanted, and reports whether there is a stream that was
// told.
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

// tell says what is wanted. What fails is said again by the next stream.
func (c *control) tell() {
	if c.size != nil {
		_ = c.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Resize{Resize: c.size.proto()}})
	}
	if c.kill {
		_ = c.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Signal{Signal: uint32(syscall.SIGKILL)}})
	}
	if c.detach {
		_ = c.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Detach{Detach: &pb.ExecDetach{}}})
	}
}

func (c *control) leave(s *execStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == s {
		c.stream = nil
	}
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
