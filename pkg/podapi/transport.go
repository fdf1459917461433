package podapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

// transport opens the connections of a client, and remembers why the last one
// failed: gRPC keeps the words of the reason, but neither its type nor its class.
type transport struct {
	DialOptions
	tls    *tls.Config // nil without an identity
	failed atomic.Pointer[error]

	mu         sync.Mutex
	current    []byte // the certificate of the agent that the latest connection leads to
	configured []byte // the one of the agent that was last given Config
}

func newTransport(opts DialOptions) (*transport, error) {
	t := &transport{DialOptions: opts}
	if opts.Identity == nil {
		if opts.Config != nil || opts.Vouch != nil {
			return nil, errors.New("cannot configure an agent, nor know its certificate, without an identity")
		}
		return t, nil
	}
	var err error
	t.tls, err = opts.Identity.ClientTLS(opts.PodUID)
	return t, err
}

// dial opens a connection for gRPC.
func (t *transport) dial(ctx context.Context, _ string) (net.Conn, error) {
	for try := 1; ; try++ {
		conn, err := t.connect(ctx)
		if err == nil {
			t.failed.Store(nil)
			return conn, nil
		}
		final := t.isFinal(err)
		if !final && t.Retry != nil {
			if err = t.Retry(ctx, try, err); err == nil {
				continue
			}
			final = ctx.Err() == nil
		}
		if final {
			t.failed.Store(&err)
		} else {
			t.failed.Store(nil)
		}
		return nil, err
	}
}

// isFinal reports whether another try would be pointless. Retry decides about
// another pod's agent: the pod may be gone, or its container may have restarted.
func (t *transport) isFinal(err error) bool {
	return errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrWrongPod) && t.Retry == nil || errors.As(err, new(*configError))
}

// A configError says that the agent did not accept its configuration.
type configError struct{ error }

func (e *configError) Unwrap() error { return e.error }

// connect opens a connection to the agent, and has the agent configured.
func (t *transport) connect(ctx context.Context) (net.Conn, error) {
	conn, err := t.DialOptions.Dial(ctx)
	if err != nil || t.tls == nil {
		return conn, err
	}
	secured, err := t.secure(ctx, conn)
	if err != nil {
		return nil, err
	}
	if t.Vouch != nil {
		if err := t.Vouch(ctx, secured.cert); err != nil {
			secured.Close()
			return nil, err
		}
	}
	known, config := t.isConfigured(secured.cert), t.config()
	if known || config == nil {
		return secured, nil
	}
	// An agent makes a new certificate at each start, so a new one belongs to an
	// agent that has not been configured. The connection that configures it cannot be
	// reused by a second HTTP/2 client.
	if err := configure(ctx, secured, *config); err != nil {
		return nil, err
	}
	t.wasConfigured(secured.cert)
	return t.connect(ctx)
}

// isConfigured notes the agent that a connection leads to, and reports whether it has Config.
func (t *transport) isConfigured(certificate []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current = certificate
	return bytes.Equal(certificate, t.configured)
}

func (t *transport) wasConfigured(certificate []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configured = certificate
}

// configuring is called before a call that configures the agent. What it returns is called when
// that has succeeded: if the call did what Config asks for, on the only agent that it may have
// met, the next connection need not.
func (t *transport) configuring(config Config) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.current
	return func() {
		wanted := t.config()
		t.mu.Lock()
		defer t.mu.Unlock()
		if wanted != nil && before != nil && bytes.Equal(before, t.current) && reflect.DeepEqual(*wanted, config) {
			t.configured = before
		}
	}
}

// config returns what the agent is to have; nil for nothing.
func (t *transport) config() *Config {
	if t.Config == nil {
		return nil
	}
	return t.Config()
}

// configure sends config over conn, and closes conn.
func configure(ctx context.Context, conn net.Conn, config Config) error {
	defer conn.Close()
	once := make(chan net.Conn, 1)
	once <- conn
	client, err := Dial(DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		select {
		case conn := <-once:
			return conn, nil
		default:
			return nil, net.ErrClosed
		}
	}})
	if err != nil {
		return err
	}
	defer client.Close()
	err = client.Configure(ctx, config)
	if err == nil || errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	return &configError{fmt.Errorf("configuring the agent: %w", err)}
}

// secure makes conn a TLS connection. In TLS 1.3 the client's handshake ends before
// the agent has looked at the key. So secure waits for the agent's first byte, which
// an HTTP/2 server sends unasked, or for its refusal.
func (t *transport) secure(ctx context.Context, conn net.Conn) (*begunConn, error) {
	secured, state, err := wire.ClientConn(ctx, conn, t.tls)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	first := make([]byte, 1)
	if _, err := secured.Read(first); err != nil {
		conn.Close()
		// This is how crypto/tls reports an alert of the other side.
		if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
			err = fmt.Errorf("%w: %w", ErrUnauthenticated, alert)
		}
		return nil, err
	}
	return &begunConn{Conn: secured, first: first, cert: state.PeerCertificates[0].Raw}, nil
}

// begunConn is a connection whose first bytes have been read.
type begunConn struct {
	net.Conn
	first []byte
	cert  []byte // of the agent, for one start of it
}

func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.first) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.first)
	c.first = c.first[n:]
	return n, nil
}

// explain returns the cause of a call's error, if the call found no connection and
// another try would not help.
func (t *transport) explain(err error) error {
	if failed := t.failed.Load(); failed != nil && status.Code(err) == codes.Unavailable {
		return *failed
	}
	return err
}

func (t *transport) unary(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	return t.explain(call(ctx, method, request, response, conn, opts...))
}

func (t *transport) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	return stream, t.explain(err)
}
