package portforward

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// conn is the data stream as a net.Conn. Two goroutines serve it: one reads
// the link and hands what comes to the readers, one writes what the writers
// left in the outbox. Both end with the link.
type conn struct {
	link    *link
	remote  addr
	buffers *bufferPool
	in      *inbox
	out     *outbox

	replied bool // to the opening of the data stream
	end     *verdict

	opened   chan struct{} // the node has taken the data stream
	over     chan struct{} // the link is being closed
	hangUp   sync.Once     // Close
	shutOnce sync.Once
	served   chan struct{} // the goroutine that reads has ended
	sent     chan struct{} // the goroutine that writes has ended
}

// open opens the two streams on l, which it closes if that fails.
func open(ctx context.Context, l *link, t target, buffers *bufferPool) (*conn, error) {
	opening, err := openingFrames(t.port)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c := newConn(l, t.addr, buffers)
	c.out.sendControl(opening)
	go c.serve()
	go c.send()
	if err := c.accepted(ctx); err != nil {
		c.in.close() // what may have come is not read
		c.shut(err)
		<-c.sent
		return nil, err
	}
	c.out.sendControl(lastFrame(errorStream)) // nothing is ever sent on it
	c.out.keepAlive(1)
	return c, nil
}

func newConn(l *link, remote addr, buffers *bufferPool) *conn {
	c := &conn{
		link: l, remote: remote, buffers: buffers, in: newInbox(), out: newOutbox(buffers),
		opened: make(chan struct{}), over: make(chan struct{}),
		served: make(chan struct{}), sent: make(chan struct{}),
	}
	c.end = &verdict{deliver: c.conclude}
	return c
}

// accepted waits for the node to take the data stream. The other stream's
// answer may come behind data, which nobody reads yet.
func (c *conn) accepted(ctx context.Context) error {
	select {
	case <-c.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.over:
	}
	select {
	case <-c.opened: // and closed at once, which the first Read says
		return nil
	default:
		return c.out.reason()
	}
}

// serve reads the link until it ends.
func (c *conn) serve() {
	defer close(c.served)
	err := lost(c.readFrames())
	c.end.stop() // what the node said before goes first
	c.shut(err)
	c.in.fail(err)
}

// send writes to the link until it ends, and closes it.
func (c *conn) send() {
	defer close(c.sent)
	defer func() { _ = c.link.Close() }()
	if err := c.out.run(c.link); err != nil {
		c.shut(lost(err))
		<-c.served // the reason may be among what is still to be read
	}
}

// conclude ends both directions after what the node said of the streams: first
// the writes, so that none succeeds after a read has failed.
func (c *conn) conclude(err error) {
	if err == io.EOF {
		c.shut(errPeerClosed)
	} else {
		c.shut(err)
	}
	c.in.fail(err)
}

// shut lets what was written leave, and then closes the link. Writes end with
// err.
func (c *conn) shut(err error) {
	c.shutOnce.Do(func() {
		c.out.finish(err, goAwayFrame())
		close(c.over)
		go c.linger()
	})
}

// linger closes the socket, which ends both goroutines, if they do not end by
// themselves in time.
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
// close, a *RemoteError if the node sent a text, or that the link was lost.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	return n, c.failed("read", err)
}

// Write hands p to the goroutine that sends, and waits only for room.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	return n, c.failed("write", err)
}

// Close ends all reads and writes, and returns when what was written has left,
// or could not within two seconds. The connection to the API server is closed
// when the pod has closed its side, but within another second: at the end of
// the link the node drops what it has not handed to the pod.
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

// failed says of an error what failed, to which pod.
func (c *conn) failed(op string, err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return &net.OpError{Op: op, Net: c.remote.Network(), Addr: c.remote, Err: err}
}
