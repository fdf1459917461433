package agent

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// filesService is the service Files.
type filesService struct {
	pb.UnimplementedFilesServer
	*Agent
}

func (s *filesService) Stat(_ context.Context, r *pb.StatRequest) (*pb.StatResponse, error) {
	stat := s.fs.Stat
	if r.Nofollow {
		stat = s.fs.Lstat
	}
	attr, err := stat(string(r.Path))
	if err != nil {
		return nil, err
	}
	return &pb.StatResponse{Attr: attrToProto(attr)}, nil
}

func (s *filesService) Read(r *pb.ReadRequest, stream grpc.ServerStreamingServer[pb.ReadResponse]) error {
	if r.Lines != nil {
		return s.readLines(r, stream)
	}
	w := chunkWriter(func(data []byte) error {
		return stream.Send(&pb.ReadResponse{Kind: &pb.ReadResponse_Data{Data: data}})
	})
	opts := fsops.ReadOptions{Offset: r.Offset, Length: r.Length, Opened: func(attr fsops.Attr) error {
		return sendReadHeader(stream, attr)
	}}
	result, err := s.fs.Read(stream.Context(), string(r.Path), w, opts)
	if err != nil {
		return err
	}
	return sendReadEnd(stream, &pb.ReadEnd{Sum: sumToProto(result.Sum)})
}

// readLines answers with the lines, which are few enough to be held in memory.
func (s *filesService) readLines(r *pb.ReadRequest, stream grpc.ServerStreamingServer[pb.ReadResponse]) error {
	if err := checkLineWindow(r); err != nil {
		return err
	}
	opts := fsops.LineOptions{First: r.Lines.First, Max: r.Lines.Max, MaxBytes: r.Lines.MaxBytes}
	lines, err := s.fs.ReadLines(stream.Context(), string(r.Path), opts)
	if err != nil {
		return err
	}
	if err := sendReadHeader(stream, lines.Attr); err != nil {
		return err
	}
	w := chunkWriter(func(data []byte) error {
		return stream.Send(&pb.ReadResponse{Kind: &pb.ReadResponse_Data{Data: data}})
	})
	if _, err := w.Write(lines.Text); err != nil {
		return err
	}
	var sum fsops.Sum
	sum.Add(lines.Text)
	return sendReadEnd(stream, &pb.ReadEnd{Sum: sumToProto(sum), Lines: linesToProto(lines)})
}

// checkLineWindow refuses a request for lines that also asks for bytes, or whose answer
// would be too large to be held in memory.
func checkLineWindow(r *pb.ReadRequest) error {
	invalid := func(msg string) error {
		return &fs.PathError{Op: "read", Path: string(r.Path), Err: fmt.Errorf("%s: %w", msg, syscall.EINVAL)}
	}
	switch {
	case r.Offset != 0 || r.Length != 0:
		return invalid("both bytes and lines were asked for")
	case r.Lines.MaxBytes > fsops.DefaultLineBytes:
		return invalid("max_bytes is over 1 MiB")
	}
	return nil
}

func sendReadHeader(stream grpc.ServerStreamingServer[pb.ReadResponse], attr fsops.Attr) error {
	header := &pb.ReadHeader{Attr: attrToProto(attr)}
	return stream.Send(&pb.ReadResponse{Kind: &pb.ReadResponse_Header{Header: header}})
}

func sendReadEnd(stream grpc.ServerStreamingServer[pb.ReadResponse], end *pb.ReadEnd) error {
	return stream.Send(&pb.ReadResponse{Kind: &pb.ReadResponse_End{End: end}})
}

func (s *filesService) Write(stream grpc.BidiStreamingServer[pb.WriteRequest, pb.WriteReply]) error {
	message := &pb.WriteRequest{} // for all messages, so that its buffer is used again
	if err := stream.RecvMsg(message); err != nil {
		return cut(err)
	}
	h := message.GetHeader()
	if h == nil {
		return errFirstMessage("a header")
	}
	w, err := s.fs.Create(string(h.Path), fsops.WriteOptions{
		Perm: fs.FileMode(h.Perm), Exclusive: h.Exclusive, IfMatch: h.IfMatch, Parents: h.Parents, Sync: h.Sync,
	})
	if err != nil {
		return err
	}
	defer w.Close()
	credit := s.uploads.open(func(ack *pb.UploadAck) error {
		return stream.Send(&pb.WriteReply{Kind: &pb.WriteReply_Ack{Ack: ack}})
	})
	defer credit.release()
	content := &contentReader{credit: credit, next: func() ([]byte, *pb.Sum, error) { return nextWrite(stream, message) }}
	if _, err := io.Copy(w, content); err != nil {
		return err
	}
	result, err := w.Commit(stream.Context(), sumFromProto(content.announced))
	if err != nil {
		return err
	}
	return stream.Send(&pb.WriteReply{Kind: &pb.WriteReply_End{End: writeResultToProto(result)}})
}

// nextWrite returns the data, or the announced sum, of the next message.
func nextWrite(stream grpc.BidiStreamingServer[pb.WriteRequest, pb.WriteReply], m *pb.WriteRequest) ([]byte, *pb.Sum, error) {
	if err := stream.RecvMsg(m); err != nil {
		return nil, nil, err
	}
	switch kind := m.Kind.(type) {
	case *pb.WriteRequest_Data:
		return kind.Data, nil, nil
	case *pb.WriteRequest_End:
		return nil, orEmpty(kind.End.GetSum()), nil
	}
	return nil, nil, errMessage(m.Kind)
}

func (s *filesService) Edit(ctx context.Context, r *pb.EditRequest) (*pb.EditResponse, error) {
	edits := make([]fsops.Edit, len(r.Edits))
	for i, e := range r.Edits {
		edits[i] = fsops.Edit{Old: e.Old, New: e.New, All: e.All}
	}
	result, err := s.fs.Edit(ctx, string(r.Path), edits, fsops.EditOptions{IfMatch: r.IfMatch})
	if err != nil {
		return nil, err
	}
	response := &pb.EditResponse{Diff: result.Diff, DiffTruncated: result.DiffTruncated, Write: writeResultToProto(result.Write)}
	for _, n := range result.Occurrences {
		response.Occurrences = append(response.Occurrences, int64(n))
	}
	return response, nil
}

func (s *filesService) Mkdir(_ context.Context, r *pb.MkdirRequest) (*pb.MkdirResponse, error) {
	err := s.fs.Mkdir(string(r.Path), fsops.MkdirOptions{Perm: fs.FileMode(r.Perm), Parents: r.Parents})
	return &pb.MkdirResponse{}, err
}

func (s *filesService) Remove(ctx context.Context, r *pb.RemoveRequest) (*pb.RemoveResponse, error) {
	err := s.fs.Remove(ctx, string(r.Path), fsops.RemoveOptions{Recursive: r.Recursive, Force: r.Force})
	return &pb.RemoveResponse{}, err
}

func (s *filesService) Rename(ctx context.Context, r *pb.RenameRequest) (*pb.RenameResponse, error) {
	err := s.fs.Rename(ctx, string(r.OldPath), string(r.NewPath), fsops.RenameOptions{NoReplace: r.NoReplace})
	return &pb.RenameResponse{}, err
}

func (s *filesService) Copy(ctx context.Context, r *pb.CopyRequest) (*pb.CopyResponse, error) {
	opts := fsops.CopyOptions{Recursive: r.Recursive, NoReplace: r.NoReplace}
	return &pb.CopyResponse{}, s.fs.Copy(ctx, string(r.Source), string(r.Target), opts)
}

func (s *filesService) Chmod(_ context.Context, r *pb.ChmodRequest) (*pb.ChmodResponse, error) {
	return &pb.ChmodResponse{}, s.fs.Chmod(string(r.Path), fs.FileMode(r.Mode))
}

func (s *filesService) Symlink(_ context.Context, r *pb.SymlinkRequest) (*pb.SymlinkResponse, error) {
	return &pb.SymlinkResponse{}, s.fs.Symlink(string(r.Target), string(r.Path))
}
