package podapi

import (
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// execStream is one call of Exec: the part of a run that uses one connection.
type execStream struct {
	call    grpc.BidiStreamingClient[pb.ExecRequest, pb.ExecResponse]
	hangUp  context.CancelFunc
	sending sync.Mutex
	feeding sync.WaitGroup // the senders of standard input
	closed  bool           // the request side is; control's
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

// noWayError is the transport's final error: the agent cannot be reached.
type noWayError struct{ error }

func (e *noWayError) Unwrap() error { return e.error }

// greet sends the first message, and returns when the agent has answered it or ctx
// has ended. If it fails, it closes the stream.
func (p *Process) greet(ctx context.Context, s *execStream, first *pb.ExecRequest) error {
	defer context.AfterFunc(ctx, s.hangUp)()
	var r *pb.ExecResponse
	err := p.control.use(s, first)
	if err == nil || err == io.EOF { // then Recv says why
		r, err = s.call.Recv()
	}
	if err == nil {
		err = firstError(p.checkStarted(r.GetStarted()), p.checkGap(r.GetStarted()))
	}
	if err != nil {
		p.leave(s)
		return err
	}
	p.control.answer()
	p.begin(s, r.GetStarted())
	return nil
}

// checkStarted refuses an answer that is of another process, or of another agent.
func (p *Process) checkStarted(started *pb.ExecStarted) error {
	switch {
	case started == nil:
		return protocolError("it did not begin with started")
	case started.ExecId != p.id:
		return protocolError("the exec id %.50q in place of %.50q", started.ExecId, p.id)
	case p.boot != "" && started.BootId != p.boot:
		return protocolError("the boot id %.50q in place of %q", started.BootId, p.boot)
	}
	return firstError(checkText("the boot id", started.BootId), checkNumbers("a number of a process", started.Pid, started.Stdin))
}

// checkGap refuses input that begins beyond what the process has taken.
func (p *Process) checkGap(started *pb.ExecStarted) error {
	if p.started != nil || p.attach == nil || p.attach.StdinOffset == nil {
		return nil
	}
	if from := *p.attach.StdinOffset; from < 0 || from > started.GetStdin() {
		return fmt.Errorf("standard input at offset %d leaves a gap after %d: %w", from, started.GetStdin(), syscall.EINVAL)
	}
	return nil
}

// begin begins to use a stream after the agent's answer.
func (p *Process) begin(s *execStream, started *pb.ExecStarted) {
	if p.started == nil {
		p.started, p.boot = started, started.BootId
		p.output = newOutputs(p.stdoutTo, p.stderrTo, p.fail)
		p.output.at = p.outputAt
		base := int64(0)
		if p.attach != nil {
			p.output.from(p.attach)
			base = started.Stdin
			if p.attach.StdinOffset != nil {
				base = *p.attach.StdinOffset
			}
		}
		if p.stdinFrom != nil {
			p.stdin = newStdinSender(p.stdinFrom, base)
		}
		p.limitTime()
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
	var idle idleMessages // since something moved
	for {
		r, err := s.call.Recv()
		if err != nil {
			return nil, err
		}
		p.tries = 0
		switch kind := r.Kind.(type) {
		case *pb.ExecResponse_Stdout:
			err = p.takeOutput(0, kind.Stdout, &idle)
		case *pb.ExecResponse_Stderr:
			err = p.takeOutput(1, kind.Stderr, &idle)
		case *pb.ExecResponse_Stdin:
			err = p.takeAck(kind.Stdin, &idle)
		case *pb.ExecResponse_Exit:
			if _, err = exitStatusFromProto(kind.Exit); err == nil {
				return r, nil
			}
		case *pb.ExecResponse_Detached:
			if p.mayBeDetached() {
				return r, nil
			}
			err = protocolError("it detached from the process unasked")
		case *pb.ExecResponse_Started:
			err = protocolError("a second start")
		default:
			err = idle.add()
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *Process) takeOutput(stream int, chunk *pb.OutputChunk, idle *idleMessages) error {
	if len(chunk.Data) == 0 && chunk.Omitted == 0 {
		return idle.add()
	}
	*idle = 0
	return p.output.add(stream, chunk)
}

// takeAck takes an acknowledgement of standard input. It may go beyond what this caller
// has sent, since others may send, too.
func (p *Process) takeAck(ack *pb.StdinAck, idle *idleMessages) error {
	if err := checkNumbers("an offset of standard input", ack.Offset); err != nil {
		return err
	}
	if p.stdin != nil && p.stdin.acknowledge(ack.Offset, ack.Closed) {
		*idle = 0
	}
	return idle.add()
}

// mayBeDetached reports whether the caller wants to be.
func (p *Process) mayBeDetached() bool {
	return p.control.detaching() || p.attach != nil && p.attach.NoFollow
}

// startRequest returns the first message of a command that may not have started
// yet, for the agent with this boot id.
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

// attachRequest returns the first message that continues the output where it is.
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
