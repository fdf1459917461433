package podapi

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// File is a file of the sandbox, open for reading. Read streams from the current
// position to the end; each ReadAt is a separate call. Nothing is open in the
// sandbox, so the file may change. Only ReadAt may run concurrently.
type File struct {
	client *Client
	ctx    context.Context
	attr   fsops.Attr
	offset int64

	// The stream that Read reads from, nil until it is needed.
	next  func() (*pb.ReadResponse, error, bool)
	stop  func()
	rest  []byte // received and not yet read
	check contentCheck
	err   error // what ended the stream
}

// Open opens a file for reading. ctx is for all reads of it, too.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	attr, err := c.stat(ctx, "open", &pb.StatRequest{Path: []byte(name)})
	if err != nil {
		return nil, err
	}
	if attr.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return &File{client: c, ctx: ctx, attr: attr}, nil
}

// Attr describes the file as it was when it was opened.
func (f *File) Attr() fsops.Attr { return f.attr }

// Stat returns what Attr does, as an fs.FileInfo.
func (f *File) Stat() (fs.FileInfo, error) { return f.attr.FileInfo(), nil }

// Read reads on from the current position. Before it returns io.EOF it compares
// what it read since the last Seek with the checksum.
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(f.rest) == 0 {
		if err := f.receive(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	f.offset += int64(n)
	return n, nil
}

// receive gets the next chunk of the stream, which it begins if necessary.
func (f *File) receive() error {
	if f.err != nil {
		return f.err
	}
	if f.next == nil {
		request := &pb.ReadRequest{Path: []byte(f.attr.Path), Offset: f.offset}
		f.next, f.stop = iter.Pull2(receive(f.ctx, request, f.client.files.Read))
		f.check = contentCheck{request: request}
	}
	r, err, ok := f.next()
	switch {
	case !ok:
		err = ErrCut
	case err == nil:
		err = f.take(r)
	}
	if err != nil {
		f.stop()
	}
	if f.err = err; err != io.EOF {
		f.err = pathError("read", f.attr.Path, err)
	}
	return f.err
}

// take takes a message. It returns io.EOF for the final one.
func (f *File) take(r *pb.ReadResponse) error {
	switch kind := r.Kind.(type) {
	case *pb.ReadResponse_Header:
		_, err := f.check.begin(kind.Header)
		return err
	case *pb.ReadResponse_Data:
		if err := f.check.add(kind.Data); err != nil {
			return err
		}
		f.rest = kind.Data
		return nil
	case *pb.ReadResponse_End:
		if err := f.check.end(kind.End); err != nil {
			return err
		}
		return io.EOF
	}
	return f.check.idle.add()
}

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &fs.PathError{Op: "read", Path: f.attr.Path, Err: syscall.EINVAL}
	}
	if len(p) == 0 {
		return 0, nil
	}
	w := sliceWriter{p}
	_, err := f.client.Read(f.ctx, f.attr.Path, &w, fsops.ReadOptions{Offset: off, Length: int64(len(p))})
	n := len(p) - len(w.free)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// A sliceWriter fills a slice.
type sliceWriter struct{ free []byte }

func (w *sliceWriter) Write(data []byte) (int, error) {
	n := copy(w.free, data)
	w.free = w.free[n:]
	if n < len(data) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Seek implements io.Seeker. The end is the file's end when it was opened.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.attr.Size
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, &fs.PathError{Op: "seek", Path: f.attr.Path, Err: syscall.EINVAL}
	}
	if offset != f.offset && !errors.Is(f.err, fs.ErrClosed) {
		f.reset()
	}
	f.offset = offset
	return offset, nil
}

func (f *File) reset() {
	if f.stop != nil {
		f.stop()
	}
	f.next, f.stop, f.rest, f.err = nil, nil, nil, nil
}

// Close ends the stream of Read.
func (f *File) Close() error {
	if errors.Is(f.err, fs.ErrClosed) {
		return &fs.PathError{Op: "close", Path: f.attr.Path, Err: fs.ErrClosed}
	}
	f.reset()
	f.err = &fs.PathError{Op: "read", Path: f.attr.Path, Err: fs.ErrClosed}
	return nil
}
