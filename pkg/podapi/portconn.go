package podapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/status"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// portConn is a connection to a port of a sandbox ([Client.Dial]): a net.Conn like
// TCP's, whose directions are independent, each with its own end. Its addresses are
// those of the agent's socket. It does not survive a cut, since nobody can tell how
// to go on with a foreign protocol.
type portConn struct {
	tunnel        *tunnel.Tunnel
	life          context.Context    // of the call
	hangUp        context.CancelFunc // ends it
	local, remote net.Addr

	// Each direction is a pipe, and the caller has one end of it. Pipes have no
	// buffer, and support deadlines.
	read, fed      net.Conn
	write, drained net.Conn

	closing   chan struct{} // the caller has closed
	closeOnce sync.Once
	reset     atomic.Bool   // Close resets
	resets    bool          // and did; set before closing closes
	shut      atomic.Bool   // CloseWrite was called
	ended     atomic.Bool   // the server has ended what it sends
	over      chan struct{} // the call has ended
	err       error         // why, if it ended abnormally; set before over closes
}

var _ net.Conn = (*portConn)(nil)

func newPortConn(t *tunnel.Tunnel, local, remote net.Addr) *portConn {
	c := &portConn{tunnel: t, local: local, remote: remote, closing: make(chan struct{}), over: make(chan struct{})}
	c.read, c.fed = net.Pipe()
	c.write, c.drained = net.Pipe()
	return c
}

// start begins to carry bytes.
func (c *portConn) start() {
	go c.receive()
	go c.send()
	go func() {
		_ = c.tunnel.Deliver(feed{c}) // its reason is the reader's, or the call's
		c.fed.Close()
		<-c.over
		c.tunnel.Stop()
	}()
}

// receive takes what the agent sends until the call ends.
func (c *portConn) receive() {
	if err := c.tunnel.Receive(); err != nil {
		c.err = cutOff(err)
	}
	close(c.over)
	c.hangUp()
	c.tunnel.EndSending()
	c.drained.Close()
	c.tunnel.Fail(io.EOF) // after what has come
}

// cutOff returns the error of a connection whose call ended by err.
func cutOff(err error) error {
	if _, ofCall := status.FromError(err); !ofCall && errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("%w: %w", ErrProtocol, err) // the tunnel's, of a message
	}
	switch err = wire.FromStatus(cutError(err)); {
	case errors.Is(err, context.Canceled):
		return errClosed // after the connection's own Close reason says so
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrCut):
		return fmt.Errorf("the connection was cut, and cannot go on by another: %w", err)
	}
	return err
}

// send sends the caller's data, its end, and the closing of the connection. If that
// fails, receive says why.
func (c *portConn) send() {
	err := c.tunnel.Send(func(most int) ([]byte, error) {
		buffer := pb.NewDialBuffer(most)
		n, err := c.drained.Read(buffer[:most])
		return buffer[:n], err
	})
	if err == nil && !c.isClosed() {
		err = c.tunnel.End()
	}
	if err != nil && err != tunnel.ErrEnded {
		return
	}
	select {
	case <-c.closing:
		if !c.resets { // whose end is that of the call
			_ = c.tunnel.Close()
		}
	case <-c.over:
	}
}

// feed passes received data to the caller's Read.
type feed struct{ *portConn }

func (f feed) Write(p []byte) (int, error) { return f.fed.Write(p) }

// CloseWrite is called at the server's end.
func (f feed) CloseWrite() error {
	f.ended.Store(true)
	return f.fed.Close()
}

// Read reads what the server sent. The error is io.EOF only if the server ended its
// direction.
func (c *portConn) Read(p []byte) (int, error) {
	n, err := c.read.Read(p)
	if err == io.EOF && !c.ended.Load() {
		err = io.ErrClosedPipe
	}
	return n, c.failed("read", err)
}

// Write writes to the server. It waits while the server is far behind.
func (c *portConn) Write(p []byte) (int, error) {
	n, err := c.write.Write(p)
	return n, c.failed("write", err)
}

// CloseWrite ends the direction to the server, and keeps the other.
func (c *portConn) CloseWrite() error {
	if c.isClosed() {
		return c.failed("close", io.ErrClosedPipe)
	}
	c.shut.Store(true)
	return c.write.Close()
}

// Context returns a context that ends with the connection's call: when the connection is closed, or
// when the agent's socket has failed, which Read may tell much later, or never.
func (c *portConn) Context() context.Context { return c.life }

// SetLinger sets what Close does, as that of a [net.TCPConn] does: with 0, Close
// discards what the server does not have yet, and resets the connection.
func (c *portConn) SetLinger(sec int) error {
	c.reset.Store(sec == 0)
	return nil
}

// Close ends all reads and writes, and returns when the server's side has what was
// written, or after two seconds. Then it goes on in the background for a minute, as
// long as the client is open.
func (c *portConn) Close() error {
	c.closeOnce.Do(func() {
		c.resets = c.reset.Load()
		close(c.closing)
		if c.resets {
			c.hangUp()
		}
		c.tunnel.EndSending()
		c.read.Close()
		c.write.Close()
		c.tunnel.Drop()
		last := time.AfterFunc(closeWait+closeLinger, c.hangUp)
		wait := time.NewTimer(closeWait)
		defer wait.Stop()
		select {
		case <-c.over:
			last.Stop()
		case <-wait.C:
		}
	})
	return nil
}

func (c *portConn) isClosed() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// LocalAddr is the address of the agent's end, and RemoteAddr that of the server,
// in the sandbox.
func (c *portConn) LocalAddr() net.Addr  { return c.local }
func (c *portConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *portConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline makes reads fail from t on.
func (c *portConn) SetReadDeadline(t time.Time) error {
	return c.set(c.read.SetReadDeadline(t))
}

// SetWriteDeadline makes writes fail from t on. The bytes that a failed write
// counts are on their way.
func (c *portConn) SetWriteDeadline(t time.Time) error {
	return c.set(c.write.SetWriteDeadline(t))
}

// set returns the error of setting a deadline: nil for a direction that has ended.
func (c *portConn) set(err error) error {
	if err == io.ErrClosedPipe && !c.isClosed() {
		return nil
	}
	return c.failed("set", err)
}

// failed adds the operation and the server to an error. If err is that a pipe is
// closed, it says why.
func (c *portConn) failed(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if err == io.ErrClosedPipe {
		err = c.reason(op)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// reason returns why a direction has ended.
func (c *portConn) reason(op string) error {
	switch {
	case c.isClosed():
		return net.ErrClosed
	case op == "write" && c.shut.Load():
		return syscall.EPIPE
	}
	<-c.over // pipes end after it
	if c.err == nil {
		return ErrCut // the agent says that the caller has closed, which is wrong
	}
	return c.err
}
