package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Config says how an agent serves.
type Config struct {
	// Listen is where it serves, "unix:PATH" or "tcp:HOST:PORT": at one place
	// or several.
	Listen []string
	// Health, if not empty, is where it serves grpc.health.v1 and nothing
	// else, to anybody: in the same form.
	Health string
	// Workdir is what relative paths start at; absolute.
	Workdir string
	// Env is the environment of processes, as NAME=VALUE.
	Env []string
	// ProcessEnv is what processes get on top of it, until Configure replaces
	// it.
	ProcessEnv []string
	// Protected are the patterns of paths that must not be changed, until
	// Configure replaces them: see [fsops.FS.Protect]. ReadOnly are directories
	// that are mounted read-only, which Serve makes sure of, and Info says.
	Protected, ReadOnly []string
	// JournalDirs are where the output of processes may be kept, on disk: in the
	// first that can be used. See [proc.Options].
	JournalDirs []string
	// Alone says that the program does nothing else, so that its processes are
	// protected from each other, and orphans reaped: see [proc.Options]. Serve
	// must be called as [proc.Manager.ReapOrphans] must.
	Alone bool
	// AuthorizedKeys are those whose holders may call. With none, the agent
	// serves only its own user on a unix socket, or whoever Insecure lets in.
	AuthorizedKeys []wire.AuthorizedKey
	// Insecure serves without keys on the loopback.
	Insecure bool
	// PodUID is the pod's, empty outside of Kubernetes.
	PodUID string
	// Main, if not empty, is a command that runs beside the agent, from its start
	// on; when it ends, the agent does.
	Main []string
	// IdleTimeout is after how long without a call or a process the agent ends,
	// and Expires when it does in any case, until Configure says another time;
	// 0 and zero are never.
	IdleTimeout time.Duration
	Expires     time.Time
	// TerminationLog is the path of a file that exists, in which it says why.
	TerminationLog string
	// Version is the program's.
	Version string
	// Log gets the agent's messages.
	Log *slog.Logger
}

// Serve serves until ctx ends, or the agent is idle for too long or expires, and
// then stops gracefully: it takes no new calls, ends the processes (TERM, then
// KILL), and lets calls end by themselves for a few seconds. When Main ends, the
// error is an *[ExitError]. An agent that may end by itself has an error when it
// is ctx that ends it.
func Serve(ctx context.Context, config Config) error {
	if err := checkWorkdir(config.Workdir); err != nil {
		return fmt.Errorf("cannot use %s as workdir: %w", config.Workdir, err)
	}
	if err := checkReadOnly(config.ReadOnly); err != nil {
		return err
	}
	creds, err := config.credentials()
	if err != nil {
		return err
	}
	a := newAgent(config)
	if err := a.protect("", config.Protected, true); err != nil {
		return err
	}
	listeners, err := listenAll(ctx, config.Listen, len(config.AuthorizedKeys) == 0)
	if err != nil {
		return err
	}
	server := a.newServer(creds...)
	state := health.NewServer()
	healthpb.RegisterHealthServer(server, state)
	failed := make(chan error, len(listeners)+2)
	if config.Health != "" {
		stop, err := serveHealth(ctx, config.Health, state, failed)
		if err != nil {
			closeAll(listeners)
			return err
		}
		defer stop()
	}
	for _, l := range listeners {
		go func() { failed <- server.Serve(l) }()
	}
	config.Log.Info("serving", "listen", config.Listen, "workdir", config.Workdir, "boot", a.bootID, "version", config.Version)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	if len(config.Main) > 0 {
		go func() { failed <- a.runMain(life) }()
	}
	go func() {
		defer end()
		err = a.serveUntil(ctx, life, failed)
		state.Shutdown()
		a.stop(server)
	}()
	if config.Alone {
		a.processes.ReapOrphans(life)
	}
	<-life.Done()
	return err
}

// stop ends the agent's processes and calls.
func (a *Agent) stop(server *grpc.Server) {
	a.log.Info("stopping")
	close(a.stopping)
	graceful := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(graceful)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	a.processes.Shutdown(ctx)
	select {
	case <-graceful:
	case <-ctx.Done():
		// Not waited for: it waits for those who connected and say nothing.
		go server.Stop()
	}
}

// credentials returns how callers prove that they may call, and refuses
// what would let in anybody by mistake.
func (c *Config) credentials() ([]grpc.ServerOption, error) {
	for _, address := range c.Listen {
		if err := c.mayListen(address); err != nil {
			return nil, err
		}
	}
	if len(c.AuthorizedKeys) > 0 {
		config, err := wire.AgentTLS(c.PodUID, c.AuthorizedKeys)
		if err != nil {
			return nil, err
		}
		// TLS has a buffer of its own for what it decrypted.
		return []grpc.ServerOption{grpc.Creds(wire.AgentCredentials(config)), grpc.ReadBufferSize(0)}, nil
	}
	return []grpc.ServerOption{grpc.ReadBufferSize(wire.ReadBuffer)}, nil
}

// mayListen returns why the agent must not serve at address as it is.
func (c *Config) mayListen(address string) error {
	network, addr, err := splitAddress(address)
	switch {
	case err != nil:
		return err
	case network != "tcp" || len(c.AuthorizedKeys) > 0:
		return nil
	case !c.Insecure:
		return errors.New("cannot serve on TCP without a key: give --authorized-key, or --insecure to let anybody call")
	case !isLoopback(addr):
		return fmt.Errorf("cannot serve on %s without a key: --insecure is for the loopback alone, and others could call there", address)
	}
	return nil
}

// serveHealth serves the state of health alone.
func serveHealth(ctx context.Context, address string, state healthpb.HealthServer, failed chan<- error) (stop func(), err error) {
	listener, err := listen(ctx, address, false)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, state)
	go func() { failed <- server.Serve(listener) }()
	return server.Stop, nil
}

// CheckHealth returns nil if the agent whose health is served at address says
// that it serves.
func CheckHealth(ctx context.Context, address string) error {
	network, addr, err := splitAddress(address)
	if err != nil {
		return err
	}
	var d net.Dialer
	conn, err := grpc.NewClient("passthrough:///podagent",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.DialContext(ctx, network, addr) }),
	)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return wire.FromStatus(err)
	}
	if r.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%w: health is %s", wire.ErrUnavailable, r.Status)
	}
	return nil
}
