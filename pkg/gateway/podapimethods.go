package gateway

import (
	"strings"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// podapiMethod is a method of podapi, as the gateway passes it on.
type podapiMethod struct {
	grpc.StreamDesc
	// detail says what the first message asks for.
	detail func(message []byte) (Detail, error)
	// looksOn says that the call does not work in the sandbox, and so does not wake it.
	looksOn bool
	// endless says that the call lasts for as long as its caller likes. It ends with the gateway, and
	// its caller goes on with another.
	endless bool
	// refused says why no caller may make the call; empty for those that may.
	refused string
}

// podapiMethods are the methods that the gateway knows, by their paths. It refuses all others.
var podapiMethods = describeStreams(map[string]podapiMethod{
	pb.Agent_Info_FullMethodName:  looksOn(asks(func(*pb.InfoRequest) (d Detail) { return })),
	pb.Agent_Stats_FullMethodName: looksOn(asks(func(*pb.StatsRequest) (d Detail) { return })),
	pb.Agent_Configure_FullMethodName: {
		refused: "a sandbox is configured by the gateway alone: what it is to have goes into its creation",
	},
	healthpb.Health_Check_FullMethodName: looksOn(asks(func(*healthpb.HealthCheckRequest) (d Detail) { return })),

	pb.Files_Stat_FullMethodName:    asks(func(m *pb.StatRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_List_FullMethodName:    asks(func(m *pb.ListRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_Read_FullMethodName:    asks(func(m *pb.ReadRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_Write_FullMethodName:   asks(func(m *pb.WriteRequest) Detail { return ofPaths(m.GetHeader().GetPath()) }),
	pb.Files_Edit_FullMethodName:    asks(func(m *pb.EditRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_Mkdir_FullMethodName:   asks(func(m *pb.MkdirRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_Remove_FullMethodName:  asks(func(m *pb.RemoveRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_Rename_FullMethodName:  asks(func(m *pb.RenameRequest) Detail { return ofPaths(m.OldPath, m.NewPath) }),
	pb.Files_Copy_FullMethodName:    asks(func(m *pb.CopyRequest) Detail { return ofPaths(m.Source, m.Target) }),
	pb.Files_Chmod_FullMethodName:   asks(func(m *pb.ChmodRequest) Detail { return ofPaths(m.Path) }),
	pb.Files_Symlink_FullMethodName: asks(func(m *pb.SymlinkRequest) Detail { return ofPaths(m.Path, m.Target) }),
	pb.Files_Glob_FullMethodName:    asks(func(m *pb.GlobRequest) Detail { return ofPaths(m.Dir, m.Pattern) }),
	pb.Files_Grep_FullMethodName:    asks(func(m *pb.GrepRequest) Detail { return ofPaths(m.Paths...) }),
	pb.Files_Watch_FullMethodName:   endless(asks(func(m *pb.WatchRequest) Detail { return ofPaths(m.Path) })),
	pb.Files_Push_FullMethodName:    asks(func(m *pb.PushRequest) Detail { return ofPaths(m.GetHeader().GetPath()) }),
	pb.Files_Pull_FullMethodName:    asks(func(m *pb.PullRequest) Detail { return ofPaths(m.Path) }),

	pb.Processes_Exec_FullMethodName:       endless(asks(ofExec)),
	pb.Processes_List_FullMethodName:       looksOn(asks(func(*pb.ListProcessesRequest) (d Detail) { return })),
	pb.Processes_Signal_FullMethodName:     asks(func(m *pb.SignalRequest) Detail { return Detail{ExecID: m.ExecId} }),
	pb.Processes_Forget_FullMethodName:     asks(func(m *pb.ForgetRequest) Detail { return Detail{ExecID: m.ExecId} }),
	pb.Processes_KillStrays_FullMethodName: asks(func(*pb.KillStraysRequest) (d Detail) { return }),

	pb.Ports_Dial_FullMethodName: endless(asks(func(m *pb.DialRequest) Detail { return Detail{Port: int(m.GetOpen().GetPort())} })),

	pb.Git_Checkout_FullMethodName: asks(func(m *pb.CheckoutRequest) Detail {
		return Detail{Args: texts([][]byte{m.Url, m.Ref}), Paths: texts([][]byte{m.Dir})} // and not the password
	}),
})

// describeStreams adds which of the methods are streams, by the descriptions of their services.
func describeStreams(methods map[string]podapiMethod) map[string]podapiMethod {
	for _, service := range []grpc.ServiceDesc{pb.Agent_ServiceDesc, pb.Files_ServiceDesc, pb.Processes_ServiceDesc, pb.Ports_ServiceDesc, pb.Git_ServiceDesc} {
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
}](detail func(P) Detail) podapiMethod {
	return podapiMethod{detail: func(message []byte) (Detail, error) {
		m := P(new(M))
		if !wire.FewElements(message, m.ProtoReflect().Descriptor(), elementLimit) {
			return Detail{}, invalid("the message has more than %d fields", elementLimit)
		}
		if err := proto.Unmarshal(message, m); err != nil {
			return Detail{}, invalid("the message is no %s", m.ProtoReflect().Descriptor().Name())
		}
		return detail(m), nil
	}}
}

func looksOn(m podapiMethod) podapiMethod {
	m.looksOn = true
	return m
}

func endless(m podapiMethod) podapiMethod {
	m.endless = true
	return m
}

func ofPaths(paths ...[]byte) Detail { return Detail{Paths: texts(paths)} }

// ofExec is what a command is that is started, or whose is attached to.
func ofExec(m *pb.ExecRequest) Detail {
	if attach := m.GetAttach(); attach != nil {
		return Detail{ExecID: attach.ExecId}
	}
	start := m.GetStart()
	if len(start.GetScript()) > 0 {
		return Detail{Args: []string{string(start.Script)}, ExecID: start.ExecId}
	}
	return Detail{Args: texts(start.GetArgv()), ExecID: start.GetExecId()}
}

// texts returns those of the texts that are not empty.
func texts(all [][]byte) (some []string) {
	for _, text := range all {
		if len(text) > 0 {
			some = append(some, string(text))
		}
	}
	return some
}

// operationOf returns the operation of a path of gRPC: podapi.v1.SERVICE/METHOD.
func operationOf(path string) string { return strings.TrimPrefix(path, "/") }
