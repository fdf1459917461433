package podapi

import (
	"context"
	"io"
	"io/fs"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Writer writes a file of the sandbox, which stays unchanged until Commit succeeds.
// It is not for concurrent use.
type Writer struct {
	name   string
	upload *upload
	reply  *pb.WriteReply // upload's last
	cancel context.CancelFunc
	sum    fsops.Sum
	err    error // what ended the write, if anything did
}

// Create begins to write a file. Commit puts it in place; Close without Commit, and
// the end of ctx, leave everything unchanged. The caller must Close the Writer.
func (c *Client) Create(ctx context.Context, name string, opts fsops.WriteOptions) (*Writer, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.files.Write(ctx)
	if err != nil {
		cancel()
		return nil, pathError("write", name, err)
	}
	reply := &pb.WriteReply{}
	w := &Writer{name: name, upload: newUpload(stream, reply), reply: reply, cancel: cancel}
	header := &pb.WriteHeader{
		Path: []byte(name), Perm: uint32(opts.Perm), Exclusive: opts.Exclusive,
		IfMatch: opts.IfMatch, Parents: opts.Parents, Sync: opts.Sync,
	}
	if err := w.send(&pb.WriteRequest{Kind: &pb.WriteRequest_Header{Header: header}}, 0); err != nil {
		return nil, err
	}
	return w, nil
}

// send sends one message with this many bytes of content. An error is final.
func (w *Writer) send(m *pb.WriteRequest, content int) error {
	err := w.upload.send(m, content)
	if err == nil {
		return nil
	}
	w.cancel()
	w.err = pathError("write", w.name, err)
	return w.err
}

// Write sends data. It waits while the agent's disk is far behind. An error of the
// agent, such as a full disk, may come with a later Write or with Commit.
func (w *Writer) Write(data []byte) (int, error) {
	n := 0
	for n < len(data) {
		if w.err != nil {
			return n, w.err
		}
		chunk := data[n:min(n+wire.ChunkSize, len(data))]
		w.sum.Add(chunk)
		if err := w.send(&pb.WriteRequest{Kind: &pb.WriteRequest_Data{Data: chunk}}, len(chunk)); err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, w.err
}

// ReadFrom sends all of r, in chunks of 256 KiB.
func (w *Writer) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, wire.ChunkSize))
}

// Commit ends the content, and the agent puts the file in place.
func (w *Writer) Commit() (fsops.WriteResult, error) {
	if w.err != nil {
		return fsops.WriteResult{}, w.err
	}
	if err := w.send(&pb.WriteRequest{Kind: &pb.WriteRequest_End{End: &pb.WriteEnd{Sum: sumToProto(w.sum)}}}, 0); err != nil {
		return fsops.WriteResult{}, err
	}
	err := w.upload.finish(func() bool { return w.reply.GetEnd() != nil })
	w.cancel()
	if err != nil {
		w.err = pathError("write", w.name, err)
		return fsops.WriteResult{}, w.err
	}
	w.err = &fs.PathError{Op: "write", Path: w.name, Err: fs.ErrClosed}
	result, err := writeResultFromProto(w.reply.GetEnd())
	return result, pathError("write", w.name, err)
}

// Close gives the write up, unless Commit has succeeded. It may be repeated.
func (w *Writer) Close() error {
	w.cancel()
	if w.err == nil {
		w.err = &fs.PathError{Op: "write", Path: w.name, Err: fs.ErrClosed}
	}
	return nil
}
