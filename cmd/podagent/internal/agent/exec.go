package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// processesService is the service Processes.
type processesService struct {
	pb.UnimplementedProcessesServer
	*Agent
}

type execStream = grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse]

// Exec serves one caller of one process: its output goes out while requests
// come in. The end of the call leaves the process as it is.
func (s *processesService) Exec(stream execStream) error {
	first, err := stream.Recv()
	if err != nil {
		return cut(err)
	}
	p, existing, attach, err := s.open(stream.Context(), first)
	if err != nil {
		return err
	}
	call := &execCall{stream: stream, process: p}
	started := &pb.ExecStarted{
		ExecId: p.ID(), BootId: s.bootID, Pid: int64(p.PID()), Existing: existing,
		Stdin: p.StdinAccepted(), StdinOpen: p.StdinOpen(), Terminal: p.Terminal(),
	}
	if err := call.send(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: started}}); err != nil {
		return err
	}
	if !existing && p.Ended() {
		return call.output(stream.Context(), attach) // the caller can send nothing that still matters
	}
	return call.converse(attach, started.Stdin)
}

// converse sends the output while requests come in. Standard input continues at
// the offset stdin.
func (c *execCall) converse(attach *pb.ExecAttach, stdin int64) error {
	ctx, cancel := context.WithCancelCause(c.stream.Context())
	c.stdin, c.detached = newStdinQueue(), make(chan struct{})
	// The goroutine that acknowledges input sends, and so must end before the
	// handler returns.
	var senders sync.WaitGroup
	defer senders.Wait()
	defer c.stdin.close()
	defer cancel(nil)
	c.stdin.startAt(stdin)
	senders.Go(func() { c.feedStdin(ctx) })
	if attach.Screen != nil {
		c.redraw(attach.Screen)
	}
	go func() {
		if err := c.receive(); err != nil {
			cancel(err)
		}
	}()
	return c.output(ctx, attach)
}

// open starts the process that the first message asks for, or finds it.
func (s *processesService) open(ctx context.Context, first *pb.ExecRequest) (p *proc.Process, existing bool, attach *pb.ExecAttach, err error) {
	switch kind := first.Kind.(type) {
	case *pb.ExecRequest_Start:
		spec, err := s.spec(kind.Start)
		if err != nil {
			return nil, false, nil, err
		}
		defer s.gatherer.begin()()
		p, started, err := s.processes.Start(ctx, spec)
		return p, !started, &pb.ExecAttach{Reader: kind.Start.Reader}, err
	case *pb.ExecRequest_Attach:
		if err := s.sameBoot(kind.Attach.BootId); err != nil {
			return nil, false, nil, err
		}
		if _, err := sizeFromProto(kind.Attach.Screen); err != nil {
			return nil, false, nil, err
		}
		p, err := s.processes.Get(ctx, kind.Attach.ExecId)
		return p, true, kind.Attach, err
	}
	return nil, false, nil, errFirstMessage("start or attach")
}

// sameBoot refuses a call that was meant for an earlier life of the agent.
func (a *Agent) sameBoot(bootID string) error {
	if bootID != "" && bootID != a.bootID {
		return wire.ErrAgentLost
	}
	return nil
}

func (s *processesService) spec(r *pb.ExecStart) (proc.Spec, error) {
	if err := s.sameBoot(r.BootId); err != nil {
		return proc.Spec{}, err
	}
	terminal, err := sizeFromProto(r.Terminal)
	if err != nil {
		return proc.Spec{}, err
	}
	env, err := s.environment(toStrings(r.Env), r.ClearEnv, r.Terminal != nil)
	if err != nil {
		return proc.Spec{}, err
	}
	dir := string(r.Dir)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.fs.Workdir(), dir)
	}
	return proc.Spec{
		ID: r.ExecId, Argv: toStrings(r.Argv), Script: string(r.Script), Dir: dir,
		Env: env, Stdin: r.Stdin, Timeout: time.Duration(r.Timeout), Digest: digest(r),
		Terminal: terminal, Rlimits: rlimitsFromProto(r.Rlimits),
	}, nil
}

// digest identifies a caller's request, before defaults are merged in. A repeated start
// has the same digest.
func digest(r *pb.ExecStart) [sha256.Size]byte {
	// Cleared for the moment: a copy would cost more than the digest itself.
	id, boot, reader := r.ExecId, r.BootId, r.Reader
	r.ExecId, r.BootId, r.Reader = "", "", ""
	defer func() { r.ExecId, r.BootId, r.Reader = id, boot, reader }()
	// Within one life of an agent the encoding does not change.
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return [sha256.Size]byte{} // it was unmarshalled, so this cannot happen
	}
	return sha256.Sum256(data)
}

// execCall is one call of Exec.
type execCall struct {
	stream  execStream
	process *proc.Process
	sendMu  sync.Mutex
	// converse sets these: stdin is the input that waits to be written. receive, and
	// only it, closes detached when the caller detaches.
	stdin    *stdinQueue
	detached chan struct{}
}

func (c *execCall) send(r *pb.ExecResponse) error {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	return c.stream.Send(r)
}

// output sends the process's output as attach asks, and the end.
func (c *execCall) output(ctx context.Context, attach *pb.ExecAttach) error {
	for event, err := range c.process.Attach(ctx, proc.AttachOptions{
		Stdout: attach.Stdout, Stderr: attach.Stderr, Reader: attach.Reader, Screen: attach.Screen != nil,
		NoFollow: attach.NoFollow, NoOutput: attach.NoOutput, Detach: c.detached,
	}) {
		if err != nil {
			return orCause(ctx, err)
		}
		if err := c.send(eventToProto(event)); err != nil {
			return err
		}
	}
	return nil
}

// orCause returns the cause of ctx's end in place of [context.Canceled].
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func eventToProto(e proc.Event) *pb.ExecResponse {
	switch {
	case e.Status != nil:
		return &pb.ExecResponse{Kind: &pb.ExecResponse_Exit{Exit: exitToProto(e.Status)}}
	case e.Detached:
		return &pb.ExecResponse{Kind: &pb.ExecResponse_Detached{Detached: &pb.ExecDetached{}}}
	}
	chunk := &pb.OutputChunk{Data: e.Data, Offset: e.Offset, Omitted: e.Omitted}
	if e.Stream == proc.Stderr {
		return &pb.ExecResponse{Kind: &pb.ExecResponse_Stderr{Stderr: chunk}}
	}
	return &pb.ExecResponse{Kind: &pb.ExecResponse_Stdout{Stdout: chunk}}
}

// receive handles the caller's messages until the last one, or one that detaches.
// Its error ends the call: a message was invalid, or the stream broke.
func (c *execCall) receive() error {
	for {
		r, err := c.stream.Recv()
		if err == io.EOF {
			return nil // a half-close: the output goes on
		}
		if err != nil {
			return err
		}
		if r.GetDetach() != nil {
			c.stdin.flush(detachDrain)
			close(c.detached)
			return nil
		}
		if err := c.handle(r); err != nil {
			return err
		}
	}
}

// handle does what one message asks for.
func (c *execCall) handle(r *pb.ExecRequest) error {
	switch kind := r.Kind.(type) {
	case *pb.ExecRequest_Stdin:
		return c.stdin.push(kind.Stdin)
	case *pb.ExecRequest_Signal:
		return unlessEnded(c.process.Signal(syscall.Signal(kind.Signal)))
	case *pb.ExecRequest_Resize:
		size, err := sizeFromProto(kind.Resize)
		if err != nil {
			return err
		}
		return unlessEnded(c.process.Resize(*size))
	}
	return errMessage(r.Kind)
}

// unlessEnded returns err if the request was wrong. Any other error means that the
// process has ended meanwhile, which the exit message says.
func unlessEnded(err error) error {
	if errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}

// redraw makes the program in the process's terminal draw itself in this size, which
// has been checked.
func (c *execCall) redraw(screen *pb.TerminalSize) {
	size, err := sizeFromProto(screen)
	if err == nil && c.process.Terminal() {
		_ = c.process.Redraw(*size) // a process that has ended draws nothing
	}
}

// feedStdin writes the queued input to the process, and acknowledges it.
func (c *execCall) feedStdin(ctx context.Context) {
	for {
		offset, data, eof, ok := c.stdin.next()
		if !ok {
			return
		}
		next, err := c.process.WriteStdin(ctx, offset, data)
		c.stdin.accepted(next)
		if err == nil && eof {
			err = c.process.CloseStdin()
		}
		closed := eof || err != nil
		if ctx.Err() != nil || c.send(&pb.ExecResponse{Kind: &pb.ExecResponse_Stdin{Stdin: &pb.StdinAck{Offset: next, Closed: closed}}}) != nil || closed {
			c.stdin.close()
			return
		}
	}
}
