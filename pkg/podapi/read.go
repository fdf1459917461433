package podapi

import (
	"context"
	"io"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// ReadFile returns the content of a file: what its size announces, and as much again and
// 16 MiB if it grows meanwhile. More is [ErrProtocol]. Read with a Length bounds it.
func (c *Client) ReadFile(ctx context.Context, name string) ([]byte, error) {
	data, size := []byte{}, int64(0)
	_, err := c.read(ctx, &pb.ReadRequest{Path: []byte(name)},
		func(attr fsops.Attr) error {
			size = attr.Size
			data = make([]byte, 0, min(size, maxReserve))
			return nil
		},
		func(chunk []byte) error {
			data = appendSized(data, chunk, size)
			return nil
		})
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Read writes a range of a file to w as it arrives, also a part when it fails. Without a
// Length it is bounded as ReadFile is.
func (c *Client) Read(ctx context.Context, name string, w io.Writer, opts fsops.ReadOptions) (fsops.ReadResult, error) {
	request := &pb.ReadRequest{Path: []byte(name), Offset: opts.Offset, Length: opts.Length}
	var result fsops.ReadResult
	end, err := c.read(ctx, request,
		func(attr fsops.Attr) error {
			result.Attr = attr
			if opts.Opened == nil {
				return nil
			}
			return opts.Opened(attr)
		},
		func(chunk []byte) error {
			_, err := w.Write(chunk)
			return err
		})
	result.Sum = sumFromProto(end.GetSum())
	return result, err
}

// ReadLines returns a window of a file's lines. Only the window travels.
func (c *Client) ReadLines(ctx context.Context, name string, opts fsops.LineOptions) (fsops.Lines, error) {
	window := &pb.LineWindow{First: opts.First, Max: opts.Max, MaxBytes: opts.MaxBytes}
	var attr fsops.Attr
	var text []byte
	end, err := c.read(ctx, &pb.ReadRequest{Path: []byte(name), Lines: window},
		func(a fsops.Attr) error {
			attr = a
			return nil
		},
		func(chunk []byte) error {
			text = append(text, chunk...)
			return nil
		})
	if err != nil {
		return fsops.Lines{}, err
	}
	lines, err := linesFromProto(window, end.GetLines(), text)
	if err != nil {
		return fsops.Lines{}, pathError("read", name, err)
	}
	lines.Attr = attr
	return lines, nil
}

// read hands the file's attributes to opened, and its content to take, in chunks that
// are valid during the call. It checks all messages, and their sum.
func (c *Client) read(ctx context.Context, request *pb.ReadRequest, opened func(fsops.Attr) error, take func([]byte) error) (*pb.ReadEnd, error) {
	name := string(request.Path)
	check := contentCheck{request: request}
	for r, err := range receive(ctx, request, c.files.Read) {
		if err != nil {
			return nil, pathError("read", name, err)
		}
		var attr fsops.Attr
		var ofCaller error // comes back as it is
		switch kind := r.Kind.(type) {
		case *pb.ReadResponse_Header:
			if attr, err = check.begin(kind.Header); err == nil {
				ofCaller = opened(attr)
			}
		case *pb.ReadResponse_Data:
			if err = check.add(kind.Data); err == nil {
				ofCaller = take(kind.Data)
			}
		case *pb.ReadResponse_End:
			return kind.End, pathError("read", name, check.end(kind.End))
		default:
			err = check.idle.add()
		}
		if err != nil {
			return nil, pathError("read", name, err)
		}
		if ofCaller != nil {
			return nil, ofCaller
		}
	}
	return nil, pathError("read", name, ErrCut)
}
