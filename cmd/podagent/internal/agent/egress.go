package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/cmd/podagent/internal/egress"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// egressService is the service Egress.
type egressService struct {
	pb.UnimplementedEgressServer
	*Agent
}

// wayOut is the state of the sandbox's way out.
type wayOut struct {
	mu    sync.Mutex
	proxy *egress.Proxy // nil until there is one
}

// openProxy returns the proxy, which begins to listen when it is first needed: a socket would cost
// sandboxes without a way out of their own.
func (a *Agent) openProxy() (*egress.Proxy, error) {
	a.wayOut.mu.Lock()
	defer a.wayOut.mu.Unlock()
	if a.wayOut.proxy != nil {
		return a.wayOut.proxy, nil
	}
	p, err := egress.Listen(a.log)
	if err != nil {
		return nil, fmt.Errorf("cannot open the proxy of the way out: %w", err)
	}
	a.wayOut.proxy = p
	return p, nil
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
	proxy, err := s.openProxy()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() { cancel(s.farEndLeft(stream)) }()
	farEnd := proxy.Join(start.Generation)
	defer farEnd.Leave()
	for {
		news, err := farEnd.Next(ctx)
		if err != nil {
			return context.Cause(ctx)
		}
		if news.Serving {
			s.adopt(proxy, env)
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
	proxy, err := s.openProxy()
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

// adopt gives commands that start from now on the variables of the proxy, and of the far end that
// serves.
func (a *Agent) adopt(proxy *egress.Proxy, env []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.egressEnv = append(proxyEnv(proxy.Port()), env...)
	a.setEnv(a.configured)
}

// proxyEnv are the variables by which programs find the proxy. Programs that cannot speak SOCKS fail
// if ALL_PROXY names it so. Node before 24 does not read any of them.
func proxyEnv(port int) []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(port)
	const direct = "localhost,127.0.0.1,::1"
	return []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "ALL_PROXY=" + proxy, "NO_PROXY=" + direct,
		"http_proxy=" + proxy, "https_proxy=" + proxy, "all_proxy=" + proxy, "no_proxy=" + direct,
		"NODE_USE_ENV_PROXY=1",
	}
}

// info says how processes can leave the sandbox.
func (w *wayOut) info() *pb.EgressInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proxy == nil {
		return nil
	}
	return &pb.EgressInfo{Level: "advisory", Port: uint32(w.proxy.Port()), Served: w.proxy.Served()}
}

// close ends the proxy.
func (w *wayOut) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.proxy != nil {
		w.proxy.Close()
	}
}
