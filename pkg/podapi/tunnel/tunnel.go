// Package tunnel carries the bytes of one connection over one call of the
// contract's Ports.Dial. The agent, with a socket at its end, and the client,
// with a net.Conn, use the same code.
//
// The directions are independent: neither a slow reader nor a waiting writer holds
// up the other direction, or another connection. Each side holds received bytes until
// it delivers them, in a window that a [Budget] lends, and tells the other side by
// acks how much it may send. While a connection is idle the agent's side holds no
// buffer, and the client's side one of [podapiv1.DialChunk].
package tunnel

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Frame is a message of either side after the opening. It has exactly one field set.
type Frame struct {
	Data []byte
	// Limit is that of an ack.
	Limit int64
	// End ends a direction. Close is the caller's close or the agent's closed.
	End, Close bool
}

// Stream is one side of the call. Each method is called by one goroutine at a
// time. The data of a received frame are the receiver's.
type Stream interface {
	Send(Frame) error
	Recv() (Frame, error)
}

// Tunnel is one side of a connection. Send, Receive and Deliver run at once, each
// in a goroutine. Stop ends them, unless they wait on the stream, the source or the
// destination.
type Tunnel struct {
	stream  Stream
	sending sync.Mutex
	allowed allowance
	window  *window
	queue   queue
}

// ErrClosed ends Deliver when the other side has closed the connection and all that it
// sent before is delivered.
var ErrClosed = errors.New("the other side has closed the connection")

// ErrEnded ends Send after EndSending.
var ErrEnded = errors.New("nothing is sent any more")

// errAfterEnd is the error of a direction that goes on after its end.
var errAfterEnd = fmt.Errorf("unexpected message after the end of a direction: %w", syscall.EINVAL)

// New returns a tunnel. It borrows its window from the budget until [Tunnel.Stop].
func New(stream Stream, budget *Budget) *Tunnel {
	t := &Tunnel{stream: stream, window: newWindow(budget)}
	t.allowed.changed.L = &t.allowed.mu
	t.queue.changed.L = &t.queue.mu
	return t
}

// Limit is the first ack, which the opening carries to the other side.
func (t *Tunnel) Limit() int64 { return t.window.allowed() }

// Allow lets the tunnel send so many bytes in all, as an ack does.
func (t *Tunnel) Allow(limit int64) { t.allowed.raise(limit) }

// Send sends the bytes that next returns: at most as many as it is asked for, in a
// buffer that Send frees. Send returns nil at io.EOF of next, and otherwise ErrEnded
// or the error of next or of the stream.
func (t *Tunnel) Send(next func(most int) ([]byte, error)) error {
	for {
		most := t.allowed.await(pb.DialChunk)
		if most == 0 {
			return ErrEnded
		}
		data, err := next(most)
		if len(data) > 0 {
			t.allowed.use(len(data))
			sendErr := t.send(Frame{Data: data})
			pb.FreeDialBuffer(data)
			if sendErr != nil {
				return sendErr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// EndSending makes Send return ErrEnded, once it is not in next any more.
func (t *Tunnel) EndSending() { t.allowed.end() }

// End says that this side sends no more.
func (t *Tunnel) End() error { return t.send(Frame{End: true}) }

// Close says that this side has closed the connection.
func (t *Tunnel) Close() error { return t.send(Frame{Close: true}) }

func (t *Tunnel) send(f Frame) error {
	t.sending.Lock()
	defer t.sending.Unlock()
	return t.stream.Send(f)
}

// Receive takes what the other side sends. It returns nil when that side closes the
// connection. It never waits for the receiver of the data.
func (t *Tunnel) Receive() error {
	ended := false
	for {
		f, err := t.stream.Recv()
		if err != nil {
			return err
		}
		switch {
		case f.Close:
			t.queue.fail(ErrClosed)
			return nil
		case f.Limit > 0:
			t.allowed.raise(f.Limit)
		case ended:
			return errAfterEnd
		case f.End:
			ended = true
			t.queue.end()
		default:
			if err := t.window.receive(len(f.Data)); err != nil {
				return err
			}
			t.queue.push(f.Data)
		}
	}
}

// Writer is the destination of a direction.
type Writer interface {
	io.Writer
	// CloseWrite ends the direction.
	CloseWrite() error
}

// Deliver hands on what was received. It returns ErrClosed, the error of Fail, or
// that of a write.
func (t *Tunnel) Deliver(to Writer) error {
	for {
		data, err := t.queue.pop()
		if err != nil {
			return err
		}
		if data == nil {
			if err := to.CloseWrite(); err != nil {
				return err
			}
			continue
		}
		n := len(data)
		_, err = to.Write(data)
		pb.FreeDialBuffer(data)
		// Also what could not be written is not held any more: the other side may wait for its room.
		if limit, changed := t.window.take(n); changed {
			_ = t.send(Frame{Limit: limit}) // if the call has ended, Receive says so
		}
		if err != nil {
			return err
		}
	}
}

// Fail makes Deliver return err when it has delivered what was received.
func (t *Tunnel) Fail(err error) { t.queue.fail(err) }

// Drop discards all that was received and not delivered, and all that is received later.
func (t *Tunnel) Drop() { t.queue.drop() }

// Stop ends the tunnel, and gives back its memory.
func (t *Tunnel) Stop() {
	t.EndSending()
	t.Fail(ErrClosed)
	t.Drop()
	t.window.end()
}
