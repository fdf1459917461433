package agent

import (
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// errFirstMessage is the error of a stream that opens with the wrong message.
func errFirstMessage(want string) error {
	return fmt.Errorf("the first message of the stream is not %s: %w", want, syscall.EINVAL)
}

// errMessage is the error of a message that is out of order.
func errMessage(got any) error {
	return fmt.Errorf("unexpected message %T in the stream: %w", got, syscall.EINVAL)
}

// cut translates the end of a stream that comes before its final message.
func cut(err error) error {
	if err == io.EOF {
		return wire.ErrCut
	}
	return err
}

// orEmpty returns the sum of no content for a final message without a sum.
func orEmpty(sum *pb.Sum) *pb.Sum {
	if sum == nil {
		return &pb.Sum{}
	}
	return sum
}

// contentReader reads the content that a caller's stream carries. It returns io.EOF only
// after the stream's final message; a stream that ends before that is cut. The user of
// the content compares its sum with the announced one.
type contentReader struct {
	credit *credit
	// next returns the next message's data, or the sum of the final message.
	next func() (data []byte, end *pb.Sum, err error)
	rest []byte
	size int64 // of the content so far
	// announced is the sum in the final message.
	announced *pb.Sum
	err       error
}

func (r *contentReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.receive(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// WriteTo writes each message's data as it arrives, without another copy.
func (r *contentReader) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for {
		n, err := w.Write(r.rest)
		written += int64(n)
		r.rest = r.rest[n:]
		if err != nil {
			return written, err
		}
		if err := r.receive(); err == io.EOF {
			return written, nil
		} else if err != nil {
			return written, err
		}
	}
}

func (r *contentReader) receive() error {
	if r.err != nil {
		return r.err
	}
	if r.err = r.credit.written(r.size); r.err != nil { // everything received is written
		return r.err
	}
	data, end, err := r.next()
	switch {
	case err != nil:
		r.err = cut(err)
	case end != nil:
		r.announced = end
		r.err = io.EOF
	default:
		r.err = r.credit.check(r.size + int64(len(data)))
	}
	if r.err == nil {
		r.rest = data
		r.size += int64(len(data))
	}
	return r.err
}

// finish reads on to the final message, and compares its sum with that of all content.
func (r *contentReader) finish(sum *fsops.Sum) error {
	if _, err := r.WriteTo(io.Discard); err != nil {
		return err
	}
	return sum.Check(sumFromProto(r.announced))
}

// chunkWriter sends everything that is written to it in chunks.
type chunkWriter func(chunk []byte) error

func (send chunkWriter) Write(p []byte) (int, error) {
	n := 0
	for chunk := range slices.Chunk(p, wire.ChunkSize) {
		if err := send(chunk); err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}
