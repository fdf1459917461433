package execstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"github.com/podagent/podagent/pkg/launcher/internal/upgrade"
)

// conn is a command's streams as a net.Conn. It uses pipes: conn holds the caller's
// ends, and the executor, which copies to and from the API server, holds the far
// ends.
type conn struct {
	net.Conn
	far    net.Conn
	remote addr
	stderr head
	life   context.Context // of the executor
	end    context.CancelFunc
	once   sync.Once
	closed chan struct{} // closed by Close
	ended  chan struct{} // closed when the executor has returned
	err    error         // what it returned; valid once ended is closed
}

func newConn(remote addr) *conn {
	near, far := net.Pipe()
	// What client-go would log is also the error of a Read.
	ctx := klog.NewContext(context.Background(), logr.Discard())
	c := &conn{Conn: near, far: far, remote: remote, closed: make(chan struct{}), ended: make(chan struct{})}
	c.life, c.end = context.WithCancel(ctx)
	return c
}

// run copies until the command has ended or the link is lost.
func (c *conn) run(executor remotecommand.Executor) {
	defer c.end()
	defer c.far.Close()
	defer close(c.ended)
	// The WebSocket upgrade does not notice the end of its context.
	ctx := httptrace.WithClientTrace(c.life, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		context.AfterFunc(c.life, func() { _ = upgrade.Bottom(got.Conn).Close() })
	}})
	c.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{
		Stdin: (*stdin)(c), Stdout: (*stdout)(c), Stderr: &c.stderr,
	})
}

// Read reads what the command wrote to standard output. The error is io.EOF
// when it has exited with 0.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.err != nil { // err is set before the far end is closed
		err = c.failure()
	}
	return n, c.failed("read", err)
}

// Write returns when the goroutine that sends has taken p.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.failed("write", err)
}

// Close ends all reads and writes, and then, after the bytes already written, the
// command's standard input. It does not wait for the command.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		_ = c.Conn.Close()
		go func() {
			defer c.end()
			select {
			case <-c.ended:
			case <-time.After(closeLinger):
			}
		}()
	})
	return nil
}

// hangUp ends everything at once.
func (c *conn) hangUp() {
	_ = c.Conn.Close()
	c.end()
}

func (c *conn) LocalAddr() net.Addr  { return addr("podagent") }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// failed adds the operation and the pod to an error.
func (c *conn) failed(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	if errors.Is(err, io.ErrClosedPipe) {
		select {
		case <-c.closed:
			err = net.ErrClosed
		default: // the far end
			err = fmt.Errorf("the command has ended: %w", syscall.EPIPE)
		}
	}
	return &net.OpError{Op: op, Net: c.remote.Network(), Addr: c.remote, Err: err}
}

// failure returns why the command ended, if it has.
func (c *conn) failure() error {
	text := c.stderr.text()
	switch {
	case c.err == nil:
		return io.ErrUnexpectedEOF
	case text == "":
		return c.err
	}
	return fmt.Errorf("%s: %w", text, c.err)
}
