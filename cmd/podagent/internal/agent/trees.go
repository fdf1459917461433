package agent

import (
	"bufio"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

func (s *filesService) Push(stream grpc.BidiStreamingServer[pb.PushRequest, pb.PushReply]) error {
	message := &pb.PushRequest{} // for all messages, so that its buffer is used again
	if err := stream.RecvMsg(message); err != nil {
		return cut(err)
	}
	h := message.GetHeader()
	if h == nil {
		return errFirstMessage("a header")
	}
	credit := s.uploads.open(func(ack *pb.UploadAck) error {
		return stream.Send(&pb.PushReply{Kind: &pb.PushReply_Ack{Ack: ack}})
	})
	defer credit.release()
	var sum fsops.Sum
	content := &contentReader{credit: credit, next: func() ([]byte, *pb.Sum, error) {
		data, end, err := nextPush(stream, message)
		sum.Add(data)
		return data, end, err
	}}
	// The caller may fill the sandbox, and the modes are the caller's.
	opts := fsops.ExtractOptions{OutsideLinks: h.OutsideLinks, KeepModes: true, MaxBytes: -1, MaxEntries: -1}
	stats, err := s.fs.Extract(stream.Context(), string(h.Path), content, opts)
	if err != nil {
		return err
	}
	if err := content.finish(&sum); err != nil {
		return err
	}
	end := &pb.PushResponse{Stats: treeStatsToProto(stats)}
	return stream.Send(&pb.PushReply{Kind: &pb.PushReply_End{End: end}})
}

// nextPush returns the data, or the announced sum, of the next message.
func nextPush(stream grpc.BidiStreamingServer[pb.PushRequest, pb.PushReply], m *pb.PushRequest) ([]byte, *pb.Sum, error) {
	if err := stream.RecvMsg(m); err != nil {
		return nil, nil, err
	}
	switch kind := m.Kind.(type) {
	case *pb.PushRequest_Data:
		return kind.Data, nil, nil
	case *pb.PushRequest_End:
		return nil, orEmpty(kind.End.GetSum()), nil
	}
	return nil, nil, errMessage(m.Kind)
}

func (s *filesService) Pull(r *pb.PullRequest, stream grpc.ServerStreamingServer[pb.PullResponse]) error {
	var sum fsops.Sum
	w := chunkWriter(func(data []byte) error {
		sum.Add(data)
		return stream.Send(&pb.PullResponse{Kind: &pb.PullResponse_Data{Data: data}})
	})
	opts := fsops.ArchiveOptions{Ignore: r.Ignore, Exclude: toStrings(r.Exclude)}
	buffered := bufio.NewWriterSize(w, wire.ChunkSize)
	stats, err := s.fs.Archive(stream.Context(), string(r.Path), buffered, opts)
	if err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	end := &pb.PullEnd{Sum: sumToProto(sum), Stats: treeStatsToProto(stats)}
	return stream.Send(&pb.PullResponse{Kind: &pb.PullResponse_End{End: end}})
}
