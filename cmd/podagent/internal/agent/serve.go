package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/podagent/podagent/cmd/podagent/internal/admission"
	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Config says how an agent serves.
type Config struct {
	// Listen are the addresses where it serves, each "unix:PATH" or
	// "tcp:HOST:PORT".
	Listen []string
	// Sockets, if there are any, are those of Listen, which [Bind] has opened for this program.
	Sockets []*os.File
	// SocketsPass says that they are none of these, but that [Pass] passes connections over them.
	SocketsPass bool
	// Health, if not empty, is the address, in the same form, where it serves
	// grpc.health.v1 and nothing else, to anybody.
	Health string
	// Workdir is the absolute path at which relative paths start.
	Workdir string
	// Env is the environment of processes, as NAME=VALUE.
	Env []string
	// ProcessEnv are the variables that processes get on top of it, until Configure
	// replaces them.
	ProcessEnv []string
	// Protected are the patterns of paths that must not be changed, until
	// Configure replaces them: see [fsops.FS.Protect]. ReadOnly are directories that
	// are mounted read-only. Serve checks that they are, and Info lists them.
	Protected, ReadOnly []string
	// JournalDirs are directories on disk for the output of processes. The first that
	// can be used is used: see [proc.Options].
	JournalDirs []string
	// Checkpoints, if not empty, is the directory of the workdir's checkpoints. It is not in the workdir.
	Checkpoints string
	// CheckpointsVolume is how many bytes the workdir and the checkpoints may have together, if the file system
	// does not say so; 0 is no such bound.
	CheckpointsVolume int64
	// Alone says that the program does nothing else, so that its processes are
	// protected from each other, and orphans reaped: see [proc.Options]. Serve
	// must be called as [proc.Manager.ReapOrphans] must.
	Alone bool
	// Confine says how much of a boundary of the kernel the processes must have; empty
	// means what the kernel can do.
	Confine confine.Level
	// Egress says how processes may leave the sandbox.
	Egress wayout.Config
	// Isolation says what keeps the agent from the rest of its machine. It is so already.
	Isolation isolation.Info
	// ProcessLimit, if not 0, is the most processes and threads that its processes may be together.
	ProcessLimit int
	// Files, unless it is nil, are the only files that its processes can use.
	Files []landlock.File
	// AuthorizedKeys are those whose holders may call. With none, the agent
	// serves only its own user on a unix socket, or the callers that Insecure lets in.
	AuthorizedKeys []wire.AuthorizedKey
	// Keychain replaces them, as far as it is signed: see [wire.FollowKeychain].
	Keychain string
	// AwaitAssignment makes the agent answer Info and Configure alone until it is assigned to
	// a sandbox, and its end final. Assignment is what it had before it was started again:
	// see [wire.VerifyAssignment].
	AwaitAssignment bool
	Assignment      string
	// Insecure serves without keys on the loopback.
	Insecure bool
	// PodUID is the UID of the pod, empty outside of Kubernetes.
	PodUID string
	// Main, if not empty, is a command that runs beside the agent, from its start
	// on; when it ends, the agent does.
	Main []string
	// IdleTimeout is the time without a call or a process after which the agent ends, or
	// without a call alone, if IdleIgnoresCommands. Expires is when it ends in any case, until
	// Configure sets another time. 0 and zero mean never.
	IdleTimeout         time.Duration
	IdleIgnoresCommands bool
	Expires             time.Time
	// TerminationLog is the path of an existing file, to which it writes the reason.
	TerminationLog string
	// Version is the version of the program.
	Version string
	// Log gets the agent's messages.
	Log *slog.Logger
}

// Serve serves until ctx ends, or the agent is idle for too long or expires, and
// then stops gracefully: it takes no new calls, ends the processes (TERM, then
// KILL), and lets calls end by themselves for a few seconds. When Main ends, the
// error is an *[ExitError]. If the agent may end by itself, the end of ctx is an error.
func Serve(ctx context.Context, config Config) error {
	if err := checkWorkdir(config.Workdir); err != nil {
		return fmt.Errorf("cannot use %s as workdir: %w", config.Workdir, err)
	}
	if err := checkReadOnly(config.ReadOnly); err != nil {
		return err
	}
	keys := newKeyring(&config)
	creds, readBuffer, err := config.credentials(keys.accepted)
	if err != nil {
		return err
	}
	way, thread, err := config.newWayOut(ctx)
	if err != nil {
		return err
	}
	defer way.close()
	a := newAgent(config, way, thread)
	a.keys = keys
	if err := a.protect("", config.Protected, true); err != nil {
		return err
	}
	if err := a.takeAssignment(config.Assignment); err != nil {
		config.Log.Warn("the assignment is not believed, so the agent awaits it again", "error", err)
	}
	a.openCheckpoints(ctx)
	listeners, err := config.listeners(ctx)
	if err != nil {
		return err
	}
	gate := admission.NewGate(admission.Bounds{Strangers: maxStrangers, Patience: strangerPatience, Known: maxKnown})
	state := health.NewServer()
	failed := make(chan error, len(listeners)+3)
	a.fail = func(err error) {
		select {
		case failed <- err:
		default: // it ends for another reason
		}
	}
	server := newSuccession(func() *grpc.Server {
		s := a.newServer(grpc.Creds(gate.Credentials(a.gatherer.credentials(creds))), grpc.ReadBufferSize(readBuffer))
		healthpb.RegisterHealthServer(s, checksOnly{state: state})
		return s
	}, func() { gate.Expel(keys.accepted.Admits) }, failed)
	keys.dropped = server.renew
	if config.Health != "" {
		stop, err := serveHealth(ctx, config.Health, state, failed)
		if err != nil {
			closeAll(listeners)
			return err
		}
		defer stop()
	}
	for _, l := range listeners {
		server.listen(admission.Patient(gate.Listener(l)))
	}
	server.renew()
	config.Log.Info("serving", "listen", config.Listen, "workdir", config.Workdir, "boot", a.bootID, "version", config.Version)
	return a.live(ctx, server, state, failed)
}

// listeners returns those of all addresses.
func (c *Config) listeners(ctx context.Context) ([]net.Listener, error) {
	ownerOnly := len(c.AuthorizedKeys) == 0
	if len(c.Sockets) > 0 {
		return c.inherited(ownerOnly)
	}
	return listenAll(ctx, c.Listen, ownerOnly)
}

// live runs Main and reaps orphans while the server serves, and stops it at the end. The
// error is that of Serve. failed gets the errors that end the agent.
func (a *Agent) live(ctx context.Context, server *succession, state *health.Server, failed chan error) (err error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	if len(a.config.Main) > 0 {
		go func() { failed <- a.runMain(life) }()
	}
	go func() {
		defer end()
		err = a.serveUntil(ctx, life, failed)
		state.Shutdown()
		a.stop(server)
	}()
	if a.config.Alone {
		a.processes.ReapOrphans(life)
	}
	<-life.Done()
	return err
}

// stop ends the agent's processes and calls.
func (a *Agent) stop(server *succession) {
	a.log.Info("stopping")
	close(a.stopping)
	graceful := make(chan struct{})
	go func() {
		server.gracefulStop()
		close(graceful)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	a.processes.Shutdown(ctx)
	select {
	case <-graceful:
	case <-ctx.Done():
		// This does not wait for Stop, which waits for silent connections.
		go server.stop()
	}
}

// credentials returns the credentials by which callers authenticate, and how much the
// server reads at once. It refuses a configuration that would let in anybody by mistake.
func (c *Config) credentials(accepted *wire.Accepted) (creds credentials.TransportCredentials, readBuffer int, err error) {
	for _, address := range c.Listen {
		if err := c.mayListen(address); err != nil {
			return nil, 0, err
		}
	}
	if len(c.AuthorizedKeys) == 0 {
		return insecure.NewCredentials(), wire.ReadBuffer, nil
	}
	config, err := wire.AgentTLS(c.PodUID, accepted)
	if err != nil {
		return nil, 0, err
	}
	// TLS has a buffer of its own for what it decrypted.
	return wire.AgentCredentials(config), 0, nil
}

// mayListen returns an error if the agent must not serve at address without keys.
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
