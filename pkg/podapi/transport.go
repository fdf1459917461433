package podapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// transport opens the connections of a client, and remembers why the last one
// failed: gRPC keeps the words of it, but neither type nor class.
type transport struct {
	dialer func(context.Context) (net.Conn, error)
	tls    *tls.Config // nil without an identity
	failed atomic.Pointer[error]
}

func (t *transport) dial(ctx context.Context, _ string) (net.Conn, error) {
	conn, err := t.dialer(ctx)
	if err == nil && t.tls != nil {
		conn, err = t.secure(ctx, conn)
	}
	t.note(err)
	return conn, err
}

// secure makes conn a TLS connection. In TLS 1.3 the client's handshake ends
// before the agent has looked at its key; so it waits for the agent's first
// byte, which HTTP/2 has it send unasked, or for its refusal.
func (t *transport) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	secured := tls.Client(conn, t.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	first := make([]byte, 1)
	if _, err := secured.Read(first); err != nil {
		conn.Close()
		// So crypto/tls reports an alert of the other side.
		if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
			err = fmt.Errorf("%w: %w", ErrUnauthenticated, alert)
		}
		return nil, err
	}
	return &begunConn{Conn: secured, first: first}, nil
}

func (t *transport) note(err error) {
	if err == nil {
		t.failed.Store(nil)
		return
	}
	t.failed.Store(&err)
}

// begunConn is a connection whose first bytes have been read.
type begunConn struct {
	net.Conn
	first []byte
}

func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// explain gives the error of a call that found no connection its reason, where
// that is one that trying again does not mend.
func (t *transport) explain(err error) error {
	if status.Code(err) != codes.Unavailable {
		return err
	}
	failed := t.failed.Load()
	if failed == nil || !errors.Is(*failed, ErrUnauthenticated) && !errors.Is(*failed, ErrWrongPod) {
		return err
	}
	return *failed
}

func (t *transport) unary(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return t.explain(call(ctx, method, request, response, conn, opts...))
}

func (t *transport) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	return stream, t.explain(err)
}
