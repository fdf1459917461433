package portforward

import (
	"net"
	"os"
)

// inbox hands the data from the goroutine that reads the link to the readers of the
// connection. It has no buffer of its own: the bytes stay where they were received
// until a reader copies them.
type inbox struct {
	direction
	lent []byte
}

func newInbox() *inbox {
	b := &inbox{}
	b.cond.L = &b.mu
	return b
}

// lend offers p, and returns when it has been read or nobody will read it.
func (b *inbox) lend(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent = p
	b.cond.Broadcast()
	for len(b.lent) > 0 && b.err != net.ErrClosed {
		b.cond.Wait()
	}
	b.lent = nil
}

// read waits for bytes and copies as many as fit. An error comes after the bytes that
// came before it.
func (b *inbox) read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.err == net.ErrClosed:
			return 0, b.err
		case b.expired:
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(b.lent) > 0:
			n := copy(p, b.lent)
			b.lent = b.lent[n:]
			if len(b.lent) == 0 {
				b.cond.Broadcast()
			}
			return n, nil
		case b.err != nil:
			return 0, b.err
		}
		b.cond.Wait()
	}
}
