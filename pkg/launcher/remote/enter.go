package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// enter returns the open sandbox of a name. It does not wait for the connection.
func (l *Launcher) enter(name, workdir string) (*launcher.Sandbox, error) {
	client, err := podapi.Dial(podapi.DialOptions{
		Dial: l.connect, Retry: l.retry,
		Lost: func(ctx context.Context) error { return l.lost(ctx, name) },
		GRPC: []grpc.DialOption{
			grpc.WithAuthority(l.host),
			grpc.WithChainUnaryInterceptor((&caller{l, name}).unary),
			grpc.WithChainStreamInterceptor((&caller{l, name}).stream),
		},
	})
	if err != nil {
		return nil, err
	}
	return &launcher.Sandbox{Client: client, ID: name, Workdir: workdir}, nil
}

// connect opens a connection to the gateway.
func (l *Launcher) connect(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", l.host)
	if err != nil || !l.secure {
		return conn, err
	}
	config := &tls.Config{}
	if l.TLS != nil {
		config = l.TLS.Clone()
	}
	config.NextProtos = []string{"h2"}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(l.host)
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if secured.ConnectionState().NegotiatedProtocol != "h2" {
		return nil, errors.Join(errors.New(l.noHTTP2()), secured.Close())
	}
	return secured, nil
}

// retry lets a gateway be replaced by another.
func (l *Launcher) retry(ctx context.Context, try int, err error) error {
	if wait := firstPause << min(try, 4); isFinal(err) || time.Duration(try)*wait > absentTime || !sleep(ctx, wait) {
		return l.unanswered(err)
	}
	return nil
}

// lost says what became of a sandbox whose agent was lost; nil if that is not known.
func (l *Launcher) lost(ctx context.Context, name string) error {
	s, err := l.find(ctx, name)
	switch {
	case isNotFound(err):
		return launcher.ErrGone
	case err != nil:
		return nil
	}
	return over(s.State)
}

// over returns what keeps a sandbox of a state from being called.
func over(s launcher.State) error {
	switch s {
	case launcher.Paused:
		return launcher.ErrPaused
	case launcher.Ended:
		return launcher.ErrStale
	case launcher.Terminating:
		return launcher.ErrGone
	}
	return nil
}

// caller makes calls in a sandbox.
type caller struct {
	*Launcher
	name string
}

// with adds to a call who calls, and which sandbox.
func (c *caller) with(ctx context.Context) (context.Context, error) {
	token, err := c.token()
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token, "podagent-sandbox", c.name), err
}

// unary makes a call, again if the gateway has not made it because it must wait.
func (c *caller) unary(ctx context.Context, method string, in, out any, conn *grpc.ClientConn, call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	for until := time.Now().Add(wakeTime); ; {
		with, err := c.with(ctx)
		if err != nil {
			return err
		}
		err = c.refused(call(with, method, in, out, conn, opts...))
		e, ok := errors.AsType[*Error](err)
		if !ok || e.retry <= 0 {
			return err
		}
		if wait := max(e.retry, firstPause); time.Now().Add(wait).After(until) || !sleep(ctx, wait) {
			return err
		}
	}
}

func (c *caller) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, err := c.with(ctx)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, c.refused(err)
	}
	return stream{s, c.Launcher}, nil
}

// stream is a call whose end may be the gateway's.
type stream struct {
	grpc.ClientStream
	launcher *Launcher
}

// RecvMsg tells what the gateway itself ends a call with. What may pass is to podapi's client as if the
// connection were cut, so that a command goes on, be it by another gateway.
func (s stream) RecvMsg(m any) error { return s.launcher.refused(s.ClientStream.RecvMsg(m)) }
