package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/halves"
)

// duplex is a connection whose directions end one by one.
type duplex interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
}

// client is a connection from the sandbox.
type client struct {
	net.Conn
	head   *bytes.Reader // read from it, and to be read again
	close  func() error
	denied firsts
	// life ends when the program is gone, though it may have sent what was not read yet, and when
	// the connection is closed.
	life context.Context
}

// newClient returns a client of a connection, which is closed once.
func newClient(conn net.Conn, over func()) *client {
	c := &client{Conn: conn, head: bytes.NewReader(nil), life: lifeOf(conn)}
	c.close = sync.OnceValue(func() error {
		defer over()
		return conn.Close()
	})
	return c
}

// lifeOf returns the context of a connection that has one.
func lifeOf(conn net.Conn) context.Context {
	if l, ok := conn.(interface{ Context() context.Context }); ok {
		return l.Context()
	}
	return context.Background()
}

// during returns a context that also ends with the client.
func (c *client) during(ctx context.Context) context.Context {
	if c.life.Done() == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(c.life, func() { cancel(errProgramGone) })
	return ctx
}

var errProgramGone = errors.New("the program is gone")

// unread gives data back, in front of what is still to be read.
func (c *client) unread(data []byte) {
	rest, _ := io.ReadAll(c.head) // it can't fail
	c.head = bytes.NewReader(append(data, rest...))
}

func (c *client) Read(p []byte) (int, error) {
	if c.head.Len() > 0 {
		return c.head.Read(p)
	}
	return c.Conn.Read(p)
}

func (c *client) Close() error { return c.close() }

// CloseWrite ends the direction to the sandbox.
func (c *client) CloseWrite() error { return halves.CloseWrite(c.Conn) }

// SetLinger sets what Close does, as that of a [net.TCPConn].
func (c *client) SetLinger(sec int) error { return halves.SetLinger(c.Conn, sec) }

// goodbye sends a last answer, and closes the connection when the client has it, or
// after a while: a close at once would throw away an answer with what is still unread.
func goodbye(c *client, answer []byte) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(goodbyeTime))
	if _, err := c.Write(answer); err != nil || c.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, copyBuffer))
}

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// splice carries bytes, ends and resets between a client and a host until both directions have
// ended, and closes both. first is called before anything of the client's is carried; if it returns
// false, nothing is.
func splice(c *client, host duplex, gone time.Duration, first func() bool) {
	done, sent := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(c.life, func() { release(c, host, sent, gone) })
	go func() {
		defer close(done)
		carry(c, host) // what the host sends first need not wait for the client
	}()
	if first() {
		carry(host, c)
	} else {
		halves.Reset(host)
	}
	close(sent)
	<-done
	stop()
	c.Close()
	host.Close()
}

// release ends the connection to a host whose client is gone, when all that the client has sent is
// on its way. If the host does not take it, it gets a reset after a while.
func release(c, host duplex, sent <-chan struct{}, gone time.Duration) {
	late := time.NewTimer(gone)
	defer late.Stop()
	select {
	case <-sent:
		host.Close()
	case <-late.C:
		halves.Reset(host)
		halves.Reset(c)
	}
}

// carry carries one direction. If it does not end well, it resets both connections.
func carry(to, from duplex) {
	var b flowBuffer
	defer b.free()
	for {
		buffer := b.next()
		n, err := from.Read(buffer)
		b.got(n)
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err == nil {
			continue
		}
		if err == io.EOF && to.CloseWrite() == nil {
			return
		}
		break
	}
	halves.Reset(to)
	halves.Reset(from)
}

// flowBuffer is the buffer of a direction: a large one while much comes at once, and
// otherwise a small one, since most connections wait most of the time.
type flowBuffer struct {
	small [idleBuffer]byte
	large *[copyBuffer]byte // nil while the small one does
	much  bool              // came last
}

// next returns the buffer for the next read. The one before is free then.
func (b *flowBuffer) next() []byte {
	switch {
	case !b.much:
		b.free()
		return b.small[:]
	case b.large == nil:
		b.large = buffers.Get().(*[copyBuffer]byte)
	}
	return b.large[:]
}

// got says how much a read got.
func (b *flowBuffer) got(n int) { b.much = n >= len(b.small) }

func (b *flowBuffer) free() {
	if b.large != nil {
		buffers.Put(b.large)
		b.large = nil
	}
}
