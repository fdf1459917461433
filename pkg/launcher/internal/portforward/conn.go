package portforward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// conn is the data stream as a net.Conn. Two goroutines serve it: one reads the link
// and hands the data to the readers, the other sends what the writers left in the
// outbox. Both end with the link.
type conn struct {
	link    *link
	remote  addr
	buffers *bufferPool
	in      *inbox
	out     *outbox

	replied bool // the node has answered the opening of the data stream
	end     *closeReason

	opened   chan struct{} // the node has taken the data stream
	over     chan struct{} // the link is being closed
	hangUp   sync.Once     // Close
	shutOnce sync.Once
	served   chan struct{} // the goroutine that reads has ended
	sent     chan struct{} // the goroutine that writes has ended
}

// open opens the two streams on l. If that fails, it closes l.
func open(ctx context.Context, l *link, to podPort, buffers *bufferPool) (*conn, error) {
	opening, err := openingFrames(to.port)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c := newConn(l, to.addr, buffers)
	c.out.sendControl(opening)
	go c.serve()
	go c.send()
	if err := c.accepted(ctx); err != nil {
		c.in.close() // nobody reads what may have come
		c.shut(err)
		<-c.sent
		return nil, err
	}
	c.out.sendControl(lastFrame(errorStream)) // only the node sends on it
	c.out.keepAlive(1)
	return c, nil
}

func newConn(l *link, remote addr, buffers *bufferPool) *conn {
	c := &conn{
		link: l, remote: remote, buffers: buffers, in: newInbox(), out: newOutbox(buffers),
		opened: make(chan struct{}), over: make(chan struct{}),
		served: make(chan struct{}), sent: make(chan struct{}),
	}
	c.end = &closeReason{deliver: c.conclude}
	return c
}

// accepted waits until the node has taken the data stream. It does not wait for the
// error stream: that answer may come behind data, which nobody reads yet.
func (c *conn) accepted(ctx context.Context) error {
	select {
	case <-c.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.over:
	}
	select {
	case <-c.opened: // and was closed at once, as the first Read will say
		return nil
	default:
		return c.out.reason()
	}
}

// serve reads the link until it ends.
func (c *conn) serve() {
	defer close(c.served)
	err := lost(c.readFrames())
	c.end.stop() // what the node said before comes first
	c.shut(err)
	c.in.fail(err)
}

// send writes to the link until it ends, and closes it.
func (c *conn) send() {
	defer close(c.sent)
	defer func() { _ = c.link.Close() }()
	if err := c.out.run(c.link); err != nil {
		c.shut(lost(err))
		<-c.served // unread frames may have the reason
	}
}

// conclude ends both directions with the reason that the node gave. It ends the writes
// first, so that none succeeds after a read has failed.
func (c *conn) conclude(err error) {
	if err == io.EOF {
		c.shut(errPeerClosed)
	} else {
		c.shut(err)
	}
	c.in.fail(err)
}

// shut closes the link once the bytes that were written have left. New writes fail
// with err.
func (c *conn) shut(err error) {
	c.shutOnce.Do(func() {
		c.out.finish(err, goAwayFrame())
		close(c.over)
		go c.linger()
	})
}

// linger closes the socket, which ends the goroutines, unless they end by themselves in
// time.
func (c *conn) linger() {
	if !wait(c.sent, closeLinger) {
		_ = c.link.socket.Close()
	}
}

// wait waits for done, and reports whether it came within limit.
func wait(done <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// Read reads what the pod sent. The error is io.EOF after the pod's clean
// close, a *RemoteError if the node sent a text, or says that the link was lost.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.failed("read", err)
}

// Write hands p to the goroutine that sends, and waits only for room.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.failed("write", err)
}

// Close ends all reads and writes. It returns when the bytes that were written have
// left, or after two seconds if they could not. The connection to the API server
// stays open until the pod has closed its side, but no longer than another second:
// when it ends, the node drops what it has not handed to the pod.
func (c *conn) Close() error {
	c.hangUp.Do(func() {
		c.in.close()
		c.out.close()
		c.out.sendControl(lastFrame(dataStream))
		go func() {
			wait(c.over, closeLinger)
			c.shut(net.ErrClosed)
		}()
	})
	c.out.flush()
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return c.link.socket.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.failed("set", c.in.setDeadline(t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.failed("set", c.out.setDeadline(t))
}

// failed adds the operation and the pod to an error.
func (c *conn) failed(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: c.remote.Network(), Addr: c.remote, Err: err}
}
