package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/podagent/podagent/cmd/podagent/internal/admission"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// serveHealth serves only checks of the state of health, to anybody who asks.
func serveHealth(ctx context.Context, address string, state healthpb.HealthServer, failed chan<- error) (stop func(), err error) {
	l, err := listen(ctx, address, false)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	gate := admission.NewGate(admission.Bounds{Strangers: healthCallers, Known: healthCallers})
	server := grpc.NewServer(
		grpc.Creds(gate.Credentials(insecure.NewCredentials())),
		grpc.ConnectionTimeout(healthTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: healthAge, MaxConnectionAgeGrace: healthTimeout}),
		grpc.MaxConcurrentStreams(healthCalls),
		grpc.MaxRecvMsgSize(healthBytes),
		grpc.MaxHeaderListSize(healthBytes),
		grpc.ReadBufferSize(healthBytes),
		grpc.WriteBufferSize(healthBytes),
	)
	healthpb.RegisterHealthServer(server, checksOnly{state: state})
	go func() { failed <- server.Serve(admission.Patient(gate.Listener(l))) }()
	return server.Stop, nil
}

// checksOnly refuses List, and Watch, whose calls last and so could pile up.
type checksOnly struct {
	healthpb.UnimplementedHealthServer
	state healthpb.HealthServer
}

func (c checksOnly) Check(ctx context.Context, request *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	return c.state.Check(ctx, request)
}

// CheckHealth returns nil if the agent whose health is served at address says
// that it serves. While many others ask, the agent may drop the connection before it
// answers. Then CheckHealth connects again, up to healthTries times.
func CheckHealth(ctx context.Context, address string) error {
	network, addr, err := splitAddress(address)
	if err != nil {
		return err
	}
	for tries := healthTries; ; tries-- {
		dropped, err := checkOnce(ctx, network, addr)
		if !dropped || tries <= 1 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(healthPause):
		}
	}
}

// checkOnce is CheckHealth on one connection. If it fails, dropped reports whether there
// was one, or too many others wait for theirs: then a unix socket answers EAGAIN.
func checkOnce(ctx context.Context, network, addr string) (dropped bool, err error) {
	var d net.Dialer
	var connected atomic.Bool
	conn, err := grpc.NewClient("passthrough:///podagent",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := d.DialContext(ctx, network, addr)
			connected.Store(err == nil || errors.Is(err, syscall.EAGAIN))
			return c, err
		}),
	)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return connected.Load(), wire.FromStatus(err)
	}
	if r.Status != healthpb.HealthCheckResponse_SERVING {
		return false, fmt.Errorf("%w: health is %s", wire.ErrUnavailable, r.Status)
	}
	return false, nil
}
