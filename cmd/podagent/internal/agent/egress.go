package agent

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/cmd/podagent/internal/egress"
	"github.com/podagent/podagent/internal/delay"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// egressService is the service Egress.
type egressService struct {
	pb.UnimplementedEgressServer
	*Agent
}

type farEndStream = grpc.BidiStreamingServer[pb.EgressServeRequest, pb.EgressServeResponse]

// Serve has a far end carry the connections of the sandbox.
func (s *egressService) Serve(stream farEndStream) error {
	first, err := stream.Recv()
	if err != nil {
		return cut(err)
	}
	start := first.GetStart()
	if start == nil {
		return errFirstMessage("start")
	}
	env := toStrings(start.Env)
	if err := checkEnv(env); err != nil {
		return err
	}
	proxy, err := s.wayOut.open(&s.config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() { cancel(s.farEndLeft(stream)) }()
	farEnd := proxy.Join(start.Generation)
	defer func() { s.left(proxy, start.Generation == 0 && errors.Is(context.Cause(ctx), wire.ErrCut)) }()
	defer farEnd.Leave()
	stopLooking := func() {}
	for {
		news, err := farEnd.Next(ctx)
		if err != nil {
			return context.Cause(ctx)
		}
		if news.Connection == 0 {
			stopLooking()
		}
		if news.Serving {
			s.adopt(proxy, env)
			stopLooking = s.startLooking(ctx)
		}
		if err := stream.Send(farEndNews(proxy, news)); err != nil {
			return err
		}
	}
}

// farEndLeft waits until the caller leaves, or the agent stops, and returns why the call ends.
func (s *egressService) farEndLeft(stream farEndStream) error {
	left := make(chan error, 1)
	go func() {
		_, err := stream.Recv()
		if err == nil {
			err = errors.New("start is the only request")
		}
		left <- err
	}()
	select {
	case err := <-left:
		return cut(err)
	case <-s.stopping:
		return fmt.Errorf("the agent stops: %w", wire.ErrUnavailable)
	}
}

// startLooking looks again at a network that leads nowhere, now and at times until it is stopped: it
// ends the agent if processes can leave the sandbox and must not.
func (s *egressService) startLooking(ctx context.Context) (stop func()) {
	ctx, stop = context.WithCancel(ctx)
	go func() {
		for ctx.Err() == nil && s.wayOut.levelNow() == wayout.Network {
			if err := s.wayOut.lookAgain(ctx); err != nil {
				sayWhy(s.log, s.config.TerminationLog, err.Error())
				s.fail(err)
				return
			}
			delay.For(ctx, lookPause)
		}
	}()
	return stop
}

// farEndNews is the message for news.
func farEndNews(proxy *egress.Proxy, news egress.News) *pb.EgressServeResponse {
	switch {
	case news.Connection > 0:
		return &pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Connection{Connection: &pb.EgressConnection{Id: news.Connection}}}
	case news.Serving:
		return &pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Serving{Serving: &pb.EgressServing{Port: uint32(proxy.Port())}}}
	}
	return &pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Standby{Standby: &pb.EgressStandby{Generation: news.Standby}}}
}

// Carry carries a connection of the sandbox.
func (s *egressService) Carry(stream dialStream) error {
	first, err := stream.Recv()
	if err != nil {
		return cut(err)
	}
	open := first.GetOpen()
	if open == nil {
		return errFirstMessage("open")
	}
	proxy, err := s.wayOut.open(&s.config)
	if err != nil {
		return err
	}
	socket, done, err := proxy.Carry(open.Connection)
	if err != nil {
		return err
	}
	defer done()
	t := tunnel.New(&tunnel.AgentStream{BidiStreamingServer: stream, Moved: s.activity.touch}, &s.ports.budget)
	t.Allow(open.Limit)
	opened := &pb.DialOpened{Local: socket.LocalAddr().String(), Remote: socket.RemoteAddr().String(), Limit: t.Limit()}
	if err := stream.Send(&pb.DialResponse{Kind: &pb.DialResponse_Opened{Opened: opened}}); err != nil {
		reset(socket)
		return err
	}
	return s.carry(stream.Context(), t, socket)
}
