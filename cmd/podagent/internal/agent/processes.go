package agent

import (
	"context"
	"syscall"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func (s *processesService) List(_ *pb.ListProcessesRequest, stream grpc.ServerStreamingServer[pb.ListProcessesResponse]) error {
	list := s.processes.List()
	strays, _, err := s.processes.Strays()
	if err != nil {
		return err
	}
	for _, p := range list {
		process := &pb.ListProcessesResponse_Process{Process: processToProto(p)}
		if err := stream.Send(&pb.ListProcessesResponse{Kind: process}); err != nil {
			return err
		}
	}
	end := &pb.ListProcessesResponse_End{End: &pb.ListProcessesEnd{Count: int64(len(list)), Strays: int64(strays)}}
	return stream.Send(&pb.ListProcessesResponse{Kind: end})
}

func (s *processesService) Signal(ctx context.Context, r *pb.SignalRequest) (*pb.SignalResponse, error) {
	sig := syscall.Signal(r.Signal)
	err := s.processes.Signal(ctx, r.ExecId, sig)
	if err != nil || sig != syscall.SIGKILL {
		return &pb.SignalResponse{}, err
	}
	strays, _, err := s.processes.Strays()
	return &pb.SignalResponse{Strays: int64(strays)}, err
}

func (s *processesService) KillStrays(context.Context, *pb.KillStraysRequest) (*pb.KillStraysResponse, error) {
	count, err := s.processes.KillStrays()
	return &pb.KillStraysResponse{Count: int64(count)}, err
}

func (s *processesService) Forget(_ context.Context, r *pb.ForgetRequest) (*pb.ForgetResponse, error) {
	return &pb.ForgetResponse{}, s.processes.Forget(r.ExecId)
}
