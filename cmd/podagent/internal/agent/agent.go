// Package agent serves the contract of package podapi: gRPC handlers over
// fsops and proc, and the listeners, keys and shutdown around them.
//
// A handler decodes, makes one domain call, and encodes. Errors are mapped to
// the wire in one place, the interceptors.
package agent

import (
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Agent is the state that the services share.
type Agent struct {
	config      Config
	fs          *fsops.FS
	processes   *proc.Manager
	confined    confine.Parts // the boundary of processes
	activity    activity
	rested      time.Time // the end of the activity after which it last rested
	life        lifetime
	uploads     uploads
	gatherer    gatherer
	disk        diskMeter
	ports       ports
	wayOut      *wayOut
	fail        func(error) // ends the agent
	keys        *keyring
	assignment  assignment
	checkpoints checkpoints
	log         *slog.Logger
	bootID      string
	stopping    chan struct{} // closed when the shutdown begins

	mu         sync.Mutex
	configured []string // the variables of Configure
	egressEnv  []string // those of the way out
	farEnds    int      // how often a far end has begun to serve, or left
	env        []string // the whole environment of a process: see setEnv
}

// newAgent returns an agent with a new boot id.
func newAgent(config Config, way *wayOut, thread *confine.Thread) *Agent {
	a := &Agent{
		config:    config,
		fs:        fsops.New(config.Workdir),
		processes: proc.NewManager(proc.Options{Log: config.Log, JournalDirs: config.JournalDirs, Alone: config.Alone, OwnGroup: config.ownGroup(), ProcessLimit: config.ProcessLimit, Thread: thread}),
		disk:      newDiskMeter(),
		confined:  thread.Parts(),
		wayOut:    way,
		activity:  activity{lastEnd: time.Now()},
		log:       config.Log,
		bootID:    uuid.NewString(),
		stopping:  make(chan struct{}),
	}
	a.egressEnv = way.env()
	a.setEnv(config.ProcessEnv)
	a.life.set(config.Expires, false)
	a.life.setIdle(idleLimit{config.IdleTimeout, config.IdleIgnoresCommands})
	a.assignment.awaited.Store(config.AwaitAssignment)
	return a
}

// newServer returns a gRPC server of all services.
func (a *Agent) newServer(opts ...grpc.ServerOption) *grpc.Server {
	opts = append(opts,
		grpc.ConnectionTimeout(connectTimeout),
		grpc.NumStreamWorkers(callWorkers),
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.MaxRecvMsgSize(wire.MaxMessage),
		grpc.MaxSendMsgSize(wire.MaxMessage),
		grpc.WriteBufferSize(wire.AgentWriteBuffer),
		experimental.BufferPool(wire.BufferPool()),
		grpc.InitialWindowSize(wire.AgentWindow),
		grpc.InitialConnWindowSize(wire.ClientWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: wire.KeepaliveTime, Timeout: wire.KeepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: wire.KeepaliveTime / 2, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(a.unary),
		grpc.ChainStreamInterceptor(a.stream),
	)
	s := grpc.NewServer(opts...)
	pb.RegisterAgentServer(s, &agentService{Agent: a})
	pb.RegisterFilesServer(s, &filesService{Agent: a})
	pb.RegisterProcessesServer(s, &processesService{Agent: a})
	pb.RegisterPortsServer(s, &portsService{Agent: a})
	pb.RegisterEgressServer(s, &egressService{Agent: a})
	pb.RegisterGitServer(s, &gitService{Agent: a})
	pb.RegisterCheckpointsServer(s, &checkpointsService{Agent: a})
	return s
}
