// Package rawgrpc is gRPC whose messages stay bytes: the server's half of a call over net/http, and
// a codec for the client's half. The protocol is that of gRPC's own document PROTOCOL-HTTP2.md.
//
// gRPC has a handler for net/http itself (grpc.Server.ServeHTTP), but that keeps whatever a caller
// sends until somebody asks for it, without a bound. Here HTTP/2 holds a caller up whose messages
// nobody takes.
package rawgrpc

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

const (
	// headSize is what comes before each message: whether it is compressed, and its length.
	headSize = 5
	// partSize is how much room a message gets at once, in bytes: who announces a long one and
	// sends nothing takes no more.
	partSize = 64 << 10
)

// Stream is the server's half of a call. One goroutine may receive while another sends. It must be
// closed before its handler returns.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.ReadCloser
	began   bool // the header of the answer is on its way

	silence time.Duration
	watch   *time.Timer // breaks off a message that stops coming
	late    atomic.Bool // it has
}

// Accept begins to serve a call. A message that has begun, and the first one, must go on coming: after
// a silence of this length Recv fails.
func Accept(w http.ResponseWriter, r *http.Request, silence time.Duration) *Stream {
	s := &Stream{w: w, control: http.NewResponseController(w), body: r.Body, silence: silence}
	s.watch = time.AfterFunc(silence, func() {
		s.late.Store(true)
		_ = s.body.Close()
	})
	return s
}

// check refuses a call that cannot be served: one in another coding than protobuf, or compressed.
func check(r *http.Request) error {
	kind := r.Header.Get("Content-Type")
	if sub := strings.TrimPrefix(kind, "application/grpc"); sub != "" && sub != "+proto" {
		return status.Error(codes.InvalidArgument, "the content-type must be application/grpc")
	}
	if coding := r.Header.Get("Grpc-Encoding"); coding != "" && coding != "identity" {
		return status.Error(codes.Unimplemented, "messages must not be compressed")
	}
	return nil
}

// Within refuses a call that cannot be served, as check does, and returns a context that ends with the time
// that its caller gives it. The caller calls end.
func Within(ctx context.Context, r *http.Request) (within context.Context, end context.CancelFunc, err error) {
	if err := check(r); err != nil {
		return nil, nil, err
	}
	timeout, limited, err := Timeout(r)
	if err != nil {
		return nil, nil, err
	}
	if !limited {
		return ctx, func() {}, nil
	}
	within, end = context.WithTimeout(ctx, timeout)
	return within, end, nil
}

// Timeout returns how long a call may take, if its caller says that.
func Timeout(r *http.Request) (timeout time.Duration, ok bool, err error) {
	text := r.Header.Get("Grpc-Timeout")
	if text == "" {
		return 0, false, nil
	}
	digits, unit := text[:len(text)-1], units[text[len(text)-1]]
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || unit == 0 || len(digits) > 8 {
		return 0, false, status.Error(codes.InvalidArgument, "grpc-timeout must be up to 8 digits and a unit")
	}
	return time.Duration(min(n, uint64(longest/unit))) * unit, true, nil
}

// longest is the longest duration that there is.
const longest = time.Duration(1<<63 - 1)

var units = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// Recv returns the next message, which the caller frees, or io.EOF when there are no more. Any
// other error is a status, unless it is the connection's.
func (s *Stream) Recv() (mem.BufferSlice, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(s.body, head[:]); err != nil {
		return nil, s.broken(err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	switch {
	case head[0] != 0:
		return nil, status.Error(codes.Unimplemented, "messages must not be compressed")
	case size > wire.MaxMessage:
		return nil, status.Errorf(codes.ResourceExhausted, "a message of %d bytes is larger than %d", size, wire.MaxMessage)
	}
	message, err := s.parts(int(size))
	if err != nil {
		message.Free()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, s.broken(err)
	}
	s.watch.Stop()
	return message, nil
}

// parts reads a message of this size. With an error it returns what it has.
func (s *Stream) parts(size int) (message mem.BufferSlice, err error) {
	pool := wire.BufferPool()
	for size > 0 && err == nil {
		s.watch.Reset(s.silence)
		buffer := pool.Get(min(size, partSize))
		_, err = io.ReadFull(s.body, *buffer)
		size -= len(*buffer)
		message = append(message, mem.NewBuffer(buffer, pool))
	}
	return message, err
}

// broken returns what an error of reading means to the caller.
func (s *Stream) broken(err error) error {
	switch {
	case s.late.Load():
		return status.Error(codes.DeadlineExceeded, "the message did not come")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.InvalidArgument, "the request ends within a message")
	}
	return err
}

// Send sends a message, which it frees.
func (s *Stream) Send(message mem.BufferSlice) error {
	defer message.Free()
	s.begin()
	pool, size := wire.BufferPool(), message.Len()
	buffer := pool.Get(headSize + size)
	(*buffer)[0] = 0
	binary.BigEndian.PutUint32((*buffer)[1:], uint32(size))
	message.CopyTo((*buffer)[headSize:])
	if _, err := s.w.Write(*buffer); err != nil {
		return err // net/http may still have the buffer
	}
	pool.Put(buffer)
	return s.control.Flush()
}

// Begin sends the header of the answer, if it was not sent yet, to callers who wait for it.
func (s *Stream) Begin() {
	s.begin()
	_ = s.control.Flush()
}

func (s *Stream) begin() {
	if !s.began {
		s.began = true
		s.w.Header().Set("Content-Type", "application/grpc")
		s.w.WriteHeader(http.StatusOK)
	}
}

// End ends the call with a status.
func (s *Stream) End(st *status.Status) {
	if !s.began { // a header of its own, so that net/http announces no length
		s.Begin()
	}
	h := s.w.Header()
	h.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(st.Code())))
	if st.Message() != "" {
		h.Set(http.TrailerPrefix+"Grpc-Message", escape(st.Message()))
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			h.Set(http.TrailerPrefix+"Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(details))
		}
	}
}

// Close ends receiving: a Recv under way returns.
func (s *Stream) Close() {
	s.watch.Stop()
	_ = s.body.Close()
}

// escape encodes a text as Grpc-Message has it.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
