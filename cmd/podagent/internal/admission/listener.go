package admission

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Listener returns a listener of the connections of l that the gate lets in. It keeps a
// descriptor in reserve: when the program has none left, newcomers are refused instead of
// left waiting. Close closes l, too.
func (g *Gate) Listener(l net.Listener) net.Listener {
	gated := &listener{Listener: l, gate: g, peers: openPeers()}
	gated.reserve()
	return gated
}

// listener is a gate's listener. Only the goroutine that accepts uses its fields. It closes
// them when the listener is closed.
type listener struct {
	net.Listener
	gate  *Gate
	peers *peers
	spare *os.File // nil if there is none
}

// Accept returns the next connection that is let in, and closes those before it.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.accept()
		if err != nil {
			return nil, err
		}
		if raw == nil {
			continue
		}
		source, present := l.peers.source(raw)
		c := &conn{Conn: raw, gate: l.gate, source: source}
		if present && l.gate.admit(c) {
			return c, nil
		}
		raw.Close()
	}
}

// accept accepts a connection. If there is no descriptor for it, accept closes it, and
// returns nil.
func (l *listener) accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if errors.Is(err, net.ErrClosed) {
		l.release()
		return nil, err
	}
	if l.spare == nil || !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) {
		return raw, err
	}
	l.spare.Close()
	l.spare = nil
	if raw, err = l.Listener.Accept(); err != nil {
		l.reserve()
		return nil, err
	}
	if l.reserve(); l.spare == nil {
		raw.Close()
		l.reserve()
		return nil, nil
	}
	return raw, nil // there are free descriptors again
}

// reserve opens the descriptor in reserve, if it can.
func (l *listener) reserve() {
	if spare, err := os.Open(os.DevNull); err == nil {
		l.spare = spare
	}
}

// release closes what the listener holds.
func (l *listener) release() {
	l.peers.close()
	if l.spare != nil {
		l.spare.Close()
		l.spare = nil
	}
}
