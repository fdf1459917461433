package podapi

import (
	"context"
	"io"
	"path/filepath"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Push copies a local file, or what is in a local directory, into the
// directory target of the sandbox, which is made if it is missing. What is
// there already is replaced name by name; nothing else is removed.
func (c *Client) Push(ctx context.Context, source, target string, opts fsops.ArchiveOptions) (fsops.TreeStats, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return fsops.TreeStats{}, err
	}
	r, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := fsops.New(source).Archive(ctx, source, w, opts)
		w.CloseWithError(err)
	}()
	stats, err := c.PushTar(ctx, r, target)
	r.CloseWithError(err)
	<-done
	return stats, err
}

// Pull copies a file, or what is in a directory, of the sandbox into the local
// directory target, which is made if it is missing. Entries that would leave
// target are refused ([fsops.ErrUnsafeArchive]): the sandbox is not trusted.
func (c *Client) Pull(ctx context.Context, source, target string, opts fsops.ArchiveOptions) (fsops.TreeStats, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return fsops.TreeStats{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := c.PullTar(ctx, source, w, opts)
		w.CloseWithError(err)
		done <- err
	}()
	stats, err := fsops.New(target).Extract(ctx, target, r, fsops.ExtractOptions{})
	r.CloseWithError(err)
	if pullErr := <-done; err == nil {
		err = pullErr
	}
	return stats, err
}

// PushTar unpacks a tar stream into the directory target of the sandbox.
func (c *Client) PushTar(ctx context.Context, r io.Reader, target string) (fsops.TreeStats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Push(ctx)
	if err != nil {
		return fsops.TreeStats{}, pathError("push", target, err)
	}
	if err := sendTar(stream, r, target); err != nil && err != io.EOF {
		return fsops.TreeStats{}, err
	}
	response, err := stream.CloseAndRecv()
	if err != nil {
		return fsops.TreeStats{}, pathError("push", target, cutError(err))
	}
	return treeStatsFromProto(response.Stats), nil
}

// sendTar sends the header, the content of r and the end. io.EOF means that
// the agent ended the call; its reason is what CloseAndRecv returns.
func sendTar(stream grpc.ClientStreamingClient[pb.PushRequest, pb.PushResponse], r io.Reader, target string) error {
	header := &pb.PushHeader{Path: []byte(target)}
	if err := stream.Send(&pb.PushRequest{Kind: &pb.PushRequest_Header{Header: header}}); err != nil {
		return err
	}
	var sum fsops.Sum
	buffer := make([]byte, ChunkSize)
	for {
		n, err := io.ReadFull(r, buffer)
		if n > 0 {
			sum.Add(buffer[:n])
			if err := stream.Send(&pb.PushRequest{Kind: &pb.PushRequest_Data{Data: buffer[:n]}}); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return stream.Send(&pb.PushRequest{Kind: &pb.PushRequest_End{End: &pb.PushEnd{Sum: sumToProto(sum)}}})
		}
		if err != nil {
			return err
		}
	}
}

// PullTar writes a file or a directory of the sandbox to w as a tar stream.
// When it fails, w may have got a part of it.
func (c *Client) PullTar(ctx context.Context, source string, w io.Writer, opts fsops.ArchiveOptions) (fsops.TreeStats, error) {
	request := &pb.PullRequest{Path: []byte(source), Ignore: opts.Ignore, Exclude: toBytes(opts.Exclude)}
	var sum fsops.Sum
	for r, err := range receive(ctx, request, c.files.Pull) {
		if err != nil {
			return fsops.TreeStats{}, pathError("pull", source, err)
		}
		if end := r.GetEnd(); end != nil {
			return treeStatsFromProto(end.Stats), pathError("pull", source, sum.Check(sumFromProto(end.Sum)))
		}
		sum.Add(r.GetData())
		if _, err := w.Write(r.GetData()); err != nil {
			return fsops.TreeStats{}, err
		}
	}
	return fsops.TreeStats{}, pathError("pull", source, ErrCut)
}

func treeStatsFromProto(s *pb.TreeStats) fsops.TreeStats {
	return fsops.TreeStats{Entries: s.GetEntries(), Bytes: s.GetBytes(), Skipped: s.GetSkipped()}
}
