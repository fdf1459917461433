package podapi

import (
	"context"
	"io"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// TransferOptions says how [Client.Push] and [Client.Pull] move a tree.
type TransferOptions struct {
	fsops.ArchiveOptions // what the sending side leaves out
	fsops.ExtractOptions // what the receiving side takes
	// Progress, if not nil, gets the bytes of the tar stream so far, a few times for each megabyte.
	Progress func(bytes int64)
}

// Push copies a local file, or the entries of a local directory, into the directory
// target of the sandbox. It creates target if it is missing. It replaces entries of
// the same names, and removes no others.
func (c *Client) Push(ctx context.Context, source, target string, opts TransferOptions) (fsops.TreeStats, error) {
	source, err := filepath.Abs(source)
	if err != nil {
		return fsops.TreeStats{}, err
	}
	return transfer(ctx,
		func(ctx context.Context, w io.Writer) (fsops.TreeStats, error) {
			return fsops.New(source).Archive(ctx, source, opts.count(w), opts.ArchiveOptions)
		},
		func(ctx context.Context, r io.Reader) (fsops.TreeStats, error) {
			return c.PushTar(ctx, r, target, opts.ExtractOptions)
		})
}

// Pull is Push from the sandbox into the local directory target. The sandbox is not
// trusted: entries that would leave target are [fsops.ErrUnsafeArchive].
func (c *Client) Pull(ctx context.Context, source, target string, opts TransferOptions) (fsops.TreeStats, error) {
	target, err := filepath.Abs(target)
	if err != nil {
		return fsops.TreeStats{}, err
	}
	return transfer(ctx,
		func(ctx context.Context, w io.Writer) (fsops.TreeStats, error) {
			return c.PullTar(ctx, source, opts.count(w), opts.ArchiveOptions)
		},
		func(ctx context.Context, r io.Reader) (fsops.TreeStats, error) {
			return fsops.New(target).Extract(ctx, target, r, opts.ExtractOptions)
		})
}

// transfer runs both sides of a transfer at once, joined by a pipe. It returns what
// was received, and adds what the sender skipped. If one side fails, the other
// ends, and the error is that of the first.
func transfer(ctx context.Context,
	send func(context.Context, io.Writer) (fsops.TreeStats, error),
	receive func(context.Context, io.Reader) (fsops.TreeStats, error),
) (fsops.TreeStats, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w := io.Pipe()
	var sent fsops.TreeStats
	done := make(chan struct{})
	go func() {
		defer close(done)
		var err error
		if sent, err = send(ctx, w); err != nil {
			cancel(err) // the first cause stays
		}
		w.CloseWithError(err)
	}()
	stats, err := receive(ctx, r)
	if err != nil {
		cancel(err)
	}
	r.CloseWithError(err)
	<-done
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	stats.Skipped += sent.Skipped
	return stats, err
}

// count returns a writer to w that reports progress.
func (o *TransferOptions) count(w io.Writer) io.Writer {
	if o.Progress == nil {
		return w
	}
	return &progressWriter{w: w, report: o.Progress}
}

type progressWriter struct {
	w      io.Writer
	report func(int64)
	total  int64
}

func (p *progressWriter) Write(data []byte) (int, error) {
	n, err := p.w.Write(data)
	p.total += int64(n)
	p.report(p.total)
	return n, err
}

// PushTar unpacks a tar stream into the directory target of the sandbox.
func (c *Client) PushTar(ctx context.Context, r io.Reader, target string, opts fsops.ExtractOptions) (fsops.TreeStats, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.files.Push(ctx)
	if err != nil {
		return fsops.TreeStats{}, pathError("push", target, err)
	}
	reply := &pb.PushReply{}
	upload := newUpload(stream, reply)
	send := func(m *pb.PushRequest, content int) error {
		return pathError("push", target, upload.send(m, content))
	}
	if err := sendTar(send, r, &pb.PushHeader{Path: []byte(target), OutsideLinks: opts.OutsideLinks}); err != nil {
		return fsops.TreeStats{}, err
	}
	if err := upload.finish(func() bool { return reply.GetEnd() != nil }); err != nil {
		return fsops.TreeStats{}, pathError("push", target, err)
	}
	stats, err := treeStatsFromProto(reply.GetEnd().Stats)
	return stats, pathError("push", target, err)
}

// sendTar sends the header, the content of r and the end.
func sendTar(send func(m *pb.PushRequest, content int) error, r io.Reader, header *pb.PushHeader) error {
	if err := send(&pb.PushRequest{Kind: &pb.PushRequest_Header{Header: header}}, 0); err != nil {
		return err
	}
	var sum fsops.Sum
	buffer := make([]byte, wire.ChunkSize)
	for {
		n, err := io.ReadFull(r, buffer)
		if n > 0 {
			sum.Add(buffer[:n])
			if err := send(&pb.PushRequest{Kind: &pb.PushRequest_Data{Data: buffer[:n]}}, n); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return send(&pb.PushRequest{Kind: &pb.PushRequest_End{End: &pb.PushEnd{Sum: sumToProto(sum)}}}, 0)
		}
		if err != nil {
			return err
		}
	}
}

// PullTar writes a file or a directory of the sandbox to w as a tar stream, also a
// part when it fails.
func (c *Client) PullTar(ctx context.Context, source string, w io.Writer, opts fsops.ArchiveOptions) (fsops.TreeStats, error) {
	request := &pb.PullRequest{Path: []byte(source), Ignore: opts.Ignore, Exclude: toBytes(opts.Exclude)}
	var sum fsops.Sum
	var idle idleMessages
	for r, err := range receive(ctx, request, c.files.Pull) {
		if end := r.GetEnd(); end != nil {
			stats, err := treeStatsFromProto(end.Stats)
			return stats, pathError("pull", source, firstError(err, sum.Check(sumFromProto(end.Sum))))
		}
		if err == nil && len(r.GetData()) == 0 {
			err = idle.add()
		}
		if err != nil {
			return fsops.TreeStats{}, pathError("pull", source, err)
		}
		sum.Add(r.GetData())
		if _, err := w.Write(r.GetData()); err != nil {
			return fsops.TreeStats{}, err
		}
	}
	return fsops.TreeStats{}, pathError("pull", source, ErrCut)
}

func treeStatsFromProto(s *pb.TreeStats) (fsops.TreeStats, error) {
	return fsops.TreeStats{Entries: s.GetEntries(), Bytes: s.GetBytes(), Skipped: s.GetSkipped()},
		checkNumbers("a number of files", s.GetEntries(), s.GetBytes(), s.GetSkipped())
}
