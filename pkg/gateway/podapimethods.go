package gateway

import (
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// podapiMethod is a method of podapi, as the gateway passes it on.
type podapiMethod struct {
	grpc.StreamDesc
	// read says what the first message asks for; nil for methods that are refused.
	read func(message []byte) (asked, error)
	// endless says that the call lasts for as long as its caller likes. It ends with the gateway, and
	// its caller goes on with another.
	endless bool
	// refused says why no caller may make the call; empty for those that may.
	refused string
}

// asked is what a call asks for.
type asked struct {
	Detail
	// looksOn says that the call does not work in the sandbox, and so does not wake it.
	looksOn bool
}

// lookOn is what a call asks for that looks on.
var lookOn = asked{looksOn: true}

// farEndIsTheGateway is why no caller carries a sandbox's connections.
const farEndIsTheGateway = "the gateway alone lets connections out of a sandbox: what they may reach is its configuration's to say"

// podapiMethods are the methods that the gateway knows, by their paths. All others are UNIMPLEMENTED.
var podapiMethods = describeStreams(map[string]podapiMethod{
	pb.Agent_Info_FullMethodName:  asks(func(m *pb.InfoRequest) asked { return asked{looksOn: !m.Wake} }),
	pb.Agent_Stats_FullMethodName: asks(func(*pb.StatsRequest) asked { return lookOn }),
	pb.Agent_Configure_FullMethodName: {
		refused: "a sandbox is configured by the gateway alone: what it is to have goes into its creation",
	},
	healthpb.Health_Check_FullMethodName: asks(func(*healthpb.HealthCheckRequest) asked { return lookOn }),

	pb.Files_Stat_FullMethodName:    asks(func(m *pb.StatRequest) asked { return ofPaths(m.Path) }),
	pb.Files_List_FullMethodName:    asks(func(m *pb.ListRequest) asked { return ofPaths(m.Path) }),
	pb.Files_Read_FullMethodName:    asks(func(m *pb.ReadRequest) asked { return ofPaths(m.Path) }),
	pb.Files_Write_FullMethodName:   asks(func(m *pb.WriteRequest) asked { return ofPaths(m.GetHeader().GetPath()) }),
	pb.Files_Edit_FullMethodName:    asks(func(m *pb.EditRequest) asked { return ofPaths(m.Path) }),
	pb.Files_Mkdir_FullMethodName:   asks(func(m *pb.MkdirRequest) asked { return ofPaths(m.Path) }),
	pb.Files_Remove_FullMethodName:  asks(func(m *pb.RemoveRequest) asked { return ofPaths(m.Path) }),
	pb.Files_Rename_FullMethodName:  asks(func(m *pb.RenameRequest) asked { return ofPaths(m.OldPath, m.NewPath) }),
	pb.Files_Copy_FullMethodName:    asks(func(m *pb.CopyRequest) asked { return ofPaths(m.Source, m.Target) }),
	pb.Files_Chmod_FullMethodName:   asks(func(m *pb.ChmodRequest) asked { return ofPaths(m.Path) }),
	pb.Files_Symlink_FullMethodName: asks(func(m *pb.SymlinkRequest) asked { return ofPaths(m.Path, m.Target) }),
	pb.Files_Glob_FullMethodName:    asks(func(m *pb.GlobRequest) asked { return ofPaths(m.Dir, m.Pattern) }),
	pb.Files_Grep_FullMethodName:    asks(func(m *pb.GrepRequest) asked { return ofPaths(m.Paths...) }),
	pb.Files_Watch_FullMethodName:   endless(asks(func(m *pb.WatchRequest) asked { return ofPaths(m.Path) })),
	pb.Files_Push_FullMethodName:    asks(func(m *pb.PushRequest) asked { return ofPaths(m.GetHeader().GetPath()) }),
	pb.Files_Pull_FullMethodName:    asks(func(m *pb.PullRequest) asked { return ofPaths(m.Path) }),

	pb.Processes_Exec_FullMethodName:       endless(asks(ofExec)),
	pb.Processes_List_FullMethodName:       asks(func(*pb.ListProcessesRequest) asked { return lookOn }),
	pb.Processes_Signal_FullMethodName:     asks(func(m *pb.SignalRequest) asked { return ofCommand(m.ExecId) }),
	pb.Processes_Forget_FullMethodName:     asks(func(m *pb.ForgetRequest) asked { return ofCommand(m.ExecId) }),
	pb.Processes_KillStrays_FullMethodName: asks(func(*pb.KillStraysRequest) asked { return asked{} }),

	pb.Ports_Dial_FullMethodName: endless(asks(func(m *pb.DialRequest) asked { return asked{Detail: Detail{Port: int(m.GetOpen().GetPort())}} })),

	pb.Ports_List_FullMethodName: asks(func(*pb.ListPortsRequest) asked { return lookOn }),

	pb.Egress_Serve_FullMethodName: {refused: farEndIsTheGateway},
	pb.Egress_Carry_FullMethodName: {refused: farEndIsTheGateway},

	pb.Git_Checkout_FullMethodName: asks(func(m *pb.CheckoutRequest) asked {
		return asked{Detail: Detail{Args: texts(m.Url, m.Ref), Paths: texts(m.Dir)}} // and not the password
	}),

	pb.Checkpoints_Create_FullMethodName: asks(func(m *pb.CreateCheckpointRequest) asked { return ofCheckpoints(m.Name) }),
	pb.Checkpoints_List_FullMethodName:   asks(func(*pb.ListCheckpointsRequest) asked { return asked{} }),
	pb.Checkpoints_Remove_FullMethodName: asks(func(m *pb.RemoveCheckpointRequest) asked { return ofCheckpoints(m.Id) }),
	pb.Checkpoints_Diff_FullMethodName:   asks(func(m *pb.DiffCheckpointsRequest) asked { return ofCheckpoints(m.From, m.To) }),
	pb.Checkpoints_Restore_FullMethodName: asks(func(m *pb.RestoreCheckpointRequest) asked {
		return asked{Detail: Detail{Args: texts([]byte(m.Id)), Paths: texts(m.Paths...)}}
	}),
	pb.Checkpoints_Export_FullMethodName: asks(func(m *pb.ExportCheckpointRequest) asked { return ofCheckpoints(m.GetStart().GetId()) }),
	pb.Checkpoints_Import_FullMethodName: asks(func(m *pb.ImportCheckpointRequest) asked { return ofCheckpoints(m.GetStart().GetId()) }),
})

// describeStreams adds which of the methods are streams, by the descriptions of their services.
func describeStreams(methods map[string]podapiMethod) map[string]podapiMethod {
	for _, service := range []grpc.ServiceDesc{pb.Agent_ServiceDesc, pb.Files_ServiceDesc, pb.Processes_ServiceDesc, pb.Ports_ServiceDesc, pb.Egress_ServiceDesc, pb.Git_ServiceDesc, pb.Checkpoints_ServiceDesc} {
		for _, stream := range service.Streams {
			path := "/" + service.ServiceName + "/" + stream.StreamName
			if m, ok := methods[path]; ok {
				m.ServerStreams, m.ClientStreams = stream.ServerStreams, stream.ClientStreams
				methods[path] = m
			}
		}
	}
	return methods
}

// asks returns a method whose first message is an M.
func asks[M any, P interface {
	*M
	proto.Message
}](read func(P) asked) podapiMethod {
	return podapiMethod{read: func(message []byte) (asked, error) {
		m := P(new(M))
		if !wire.FewElements(message, m.ProtoReflect().Descriptor(), elementLimit) {
			return asked{}, invalid("the message has more than %d fields", elementLimit)
		}
		if err := proto.Unmarshal(message, m); err != nil {
			return asked{}, invalid("the message is no %s", m.ProtoReflect().Descriptor().Name())
		}
		return read(m), nil
	}}
}

func endless(m podapiMethod) podapiMethod {
	m.endless = true
	return m
}

func ofPaths(paths ...[]byte) asked { return asked{Detail: Detail{Paths: texts(paths...)}} }

func ofCommand(id string) asked { return asked{Detail: Detail{ExecID: id}} }

// ofCheckpoints is what a call asks for that is about checkpoints.
func ofCheckpoints(names ...string) (a asked) {
	for _, name := range names {
		a.Args = append(a.Args, texts([]byte(name))...)
	}
	return a
}

// ofExec is what a call asks for that starts a command, or attaches to one.
func ofExec(m *pb.ExecRequest) asked {
	if attach := m.GetAttach(); attach != nil {
		return ofCommand(attach.ExecId)
	}
	start := m.GetStart()
	a := ofCommand(start.GetExecId())
	if a.Args = texts(start.GetScript()); a.Args == nil {
		a.Args = make([]string, len(start.GetArgv()))
		for i, arg := range start.GetArgv() {
			a.Args[i] = string(arg)
		}
	}
	return a
}

// texts returns those of the texts that are not empty.
func texts(all ...[]byte) (some []string) {
	for _, text := range all {
		if len(text) > 0 {
			some = append(some, string(text))
		}
	}
	return some
}
