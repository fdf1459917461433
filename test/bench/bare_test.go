package bench

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/podagent/podagent/test/bench/testdata/echo/bare"
)

// bareGRPC is a client of package bare in the sandbox.
type bareGRPC struct{ *bare.Client }

// bareForwarded returns a client through the stock client's port-forward.
func (p *pod) bareForwarded(b *testing.B) bareGRPC {
	stream := p.forwardStream(b, p.startEcho(b, "127.0.0.1:0", "grpc"))
	return dialBare(b, func(context.Context) (net.Conn, error) { return &streamConn{ReadWriteCloser: stream}, nil })
}

// bareSecured returns a client through the stock client's port-forward, with TLS.
func (p *pod) bareSecured(b *testing.B) bareGRPC {
	stream := p.forwardStream(b, p.startEcho(b, "127.0.0.1:0", "tls", "grpc"))
	return dialBare(b, func(context.Context) (net.Conn, error) {
		return tls.Client(&streamConn{ReadWriteCloser: stream}, echoTLS), nil
	})
}

// bareAddressed returns a client to the pod's address, with TLS.
func (p *pod) bareAddressed(b *testing.B) bareGRPC {
	address := p.address(b, p.startEcho(b, "0.0.0.0:0", "tls", "grpc"))
	return dialBare(b, func(ctx context.Context) (net.Conn, error) {
		dialer := tls.Dialer{Config: echoTLS}
		return dialer.DialContext(ctx, "tcp", address)
	})
}

func dialBare(b *testing.B, dial func(context.Context) (net.Conn, error)) bareGRPC {
	b.Helper()
	client, err := bare.Dial(dial)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	return bareGRPC{client}
}

func (g bareGRPC) call(b *testing.B) func() error {
	return func() error { return g.Call(b.Context()) }
}

func (g bareGRPC) runTrue(b *testing.B) func() error {
	return func() error { return g.RunTrue(b.Context()) }
}

func (g bareGRPC) receive(b *testing.B, size int64) func() error {
	return func() error {
		n, err := g.Receive(b.Context(), size)
		if err == nil && n != size {
			err = fmt.Errorf("%d bytes came: %w", n, io.ErrUnexpectedEOF)
		}
		return err
	}
}

func (g bareGRPC) send(b *testing.B, size int64) func() error {
	return func() error { return g.Send(b.Context(), size) }
}

// streamConn makes a connection without deadlines from a port-forward's stream.
type streamConn struct{ io.ReadWriteCloser }

func (*streamConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*streamConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*streamConn) SetDeadline(time.Time) error      { return nil }
func (*streamConn) SetReadDeadline(time.Time) error  { return nil }
func (*streamConn) SetWriteDeadline(time.Time) error { return nil }
