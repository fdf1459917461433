package podapi

import (
	"context"
	"errors"
	"io"
	"sync"

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
func (p *Process) dial(ctx context.Context) (*execStream, error) {
	life, hangUp := context.WithCancel(p.life)
	stop := context.AfterFunc(ctx, hangUp)
	call, err := p.client.processes.Exec(life)
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
func (p *Process) greet(ctx context.Context, s *execStream, first *pb.ExecRequest) error {
	defer context.AfterFunc(ctx, s.hangUp)()
	var r *pb.ExecResponse
	err := p.control.use(s, first)
	if err == nil || err == io.EOF { // then Recv says why
		r, err = s.call.Recv()
	}
	if err == nil && r.GetStarted() == nil {
		err = errors.New("agent did not begin with started")
	}
	if err != nil {
		p.leave(s)
		return err
	}
	p.control.answer()
	p.begin(s, r.GetStarted())
	return nil
}

// begin begins to use a stream that the agent has answered.
func (p *Process) begin(s *execStream, started *pb.ExecStarted) {
	if p.started == nil {
		p.started, p.boot = started, started.BootId
		p.output = newOutputs(p.stdoutTo, p.stderrTo, p.fail)
		base := int64(0)
		if p.attach != nil {
			p.output.from(p.attach)
			base = started.Stdin
		}
		if p.stdinFrom != nil {
			p.stdin = newStdinSender(p.stdinFrom, base)
		}
	}
	if p.stdin != nil {
		p.stdin.begin(s, started.Stdin)
		s.feeding.Go(func() { p.stdin.feed(s) })
	}
}

// leave ends a stream.
func (p *Process) leave(s *execStream) {
	p.control.leave(s)
	s.hangUp()
	if p.stdin != nil {
		p.stdin.leave(s)
	}
	s.feeding.Wait()
}

// receive takes the messages of a stream, and returns the final one.
func (p *Process) receive(s *execStream) (*pb.ExecResponse, error) {
	for {
		r, err := s.call.Recv()
		if err != nil {
			return nil, err
		}
		p.tries = 0
		switch kind := r.Kind.(type) {
		case *pb.ExecResponse_Stdout:
			err = p.output.add(0, kind.Stdout)
		case *pb.ExecResponse_Stderr:
			err = p.output.add(1, kind.Stderr)
		case *pb.ExecResponse_Stdin:
			if p.stdin != nil {
				p.stdin.acknowledge(kind.Stdin.Offset, kind.Stdin.Closed)
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
func (p *Process) startRequest(boot string) (*pb.ExecRequest, error) {
	if p.id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		p.id = id.String()
	}
	start, err := p.command()
	if err != nil {
		return nil, err
	}
	start.ExecId, start.BootId, start.Reader = p.id, boot, p.reader
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: start}}, nil
}

// attachRequest returns the first message that goes on where the output is.
func (p *Process) attachRequest() *pb.ExecRequest {
	attach := &pb.ExecAttach{ExecId: p.id, BootId: p.boot, Reader: p.reader}
	if opts := p.attach; opts != nil {
		attach.NoFollow, attach.NoOutput = opts.NoFollow, opts.NoOutput
		attach.Stdout, attach.Stderr = opts.StdoutOffset, opts.StderrOffset
		if opts.Screen != nil && (p.output == nil || p.output.floating) {
			attach.Screen = opts.Screen.proto()
		}
	}
	if p.output != nil {
		attach.Stdout, attach.Stderr = p.output.next[0], p.output.next[1]
	}
	return &pb.ExecRequest{Kind: &pb.ExecRequest_Attach{Attach: attach}}
}
