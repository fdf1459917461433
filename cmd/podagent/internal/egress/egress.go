// Package egress is the way out of the sandbox, up to its edge: a proxy on the loopback that
// hands each connection to a far end outside. It knows no policy and no protocol. When
// nobody carries a connection, the proxy says so in the protocol that its first byte shows.
//
// Code in the sandbox is the adversary. It can open connections without end, and send what
// it likes, so connections are bounded in number, and in time until they are carried.
package egress

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"time"
)

// The bounds of the proxy.
const (
	// maxConnections is how many connections there may be at once, carried or not: as many
	// as to ports.
	maxConnections = 512
	// maxExcess is how many more are told that there are too many. All others are reset.
	maxExcess = 32
	// Patience is how long a connection waits for a far end, if there was one before, and
	// then to be carried by it.
	Patience = 10 * time.Second
	// lastWords is how long a refused connection may take to say by its first byte which
	// protocol it speaks, and then to read why it is refused.
	lastWords = 5 * time.Second
	// mostWords is how many bytes of a refused connection are read: a request, and the
	// beginning of its body. What goes on would cost processor time.
	mostWords = 256 << 10
)

// ErrNoConnection says that a connection waits no longer, or never did.
var ErrNoConnection = notWaiting{}

type notWaiting struct{}

func (notWaiting) Error() string { return "no such connection waits for a far end" }
func (notWaiting) Unwrap() error { return fs.ErrNotExist }

// Proxy accepts connections in the sandbox, and announces them to the far end that serves.
type Proxy struct {
	listener  *net.TCPListener
	log       *slog.Logger
	patience  time.Duration
	lastWords time.Duration

	mu       sync.Mutex
	farEnds  []*FarEnd // the first one serves
	joined   uint64    // how many far ends there have been
	waiting  map[uint64]*waiting
	accepted uint64 // how many connections there have been
	open     int    // how many there are that are not in excess
	excess   int
}

// waiting is a connection that nobody carries yet.
type waiting struct {
	conn *net.TCPConn
	over *time.Timer
}

// Listen opens a proxy on a port of 127.0.0.1 that the kernel chooses.
func Listen(log *slog.Logger) (*Proxy, error) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, log: log, patience: Patience, lastWords: lastWords, waiting: map[uint64]*waiting{}}
	go p.accept()
	return p, nil
}

// Port is the proxy's port on 127.0.0.1.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Close ends the proxy and the connections that nobody carries.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, w := range p.waiting {
		delete(p.waiting, id)
		w.over.Stop()
		p.open--
		reset(w.conn)
	}
}

// accept takes connections until the proxy is closed.
func (p *Proxy) accept() {
	for {
		conn, err := p.listener.AcceptTCP()
		switch {
		case err == nil:
			p.take(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default: // no descriptors: what commands have open ends some time
			p.log.Warn("cannot accept a connection of the sandbox", "error", err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// take announces a connection, or refuses it.
func (p *Proxy) take(conn *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= maxConnections {
		p.takeExcess(conn)
		return
	}
	p.open++
	if p.joined == 0 {
		go p.refuse(conn, errNone, p.leave)
		return
	}
	p.accepted++
	id := p.accepted
	p.waiting[id] = &waiting{conn, time.AfterFunc(p.patience, func() { p.giveUp(id) })}
	if len(p.farEnds) > 0 {
		p.farEnds[0].stir()
	}
}

// takeExcess refuses a connection for which there is no place.
func (p *Proxy) takeExcess(conn *net.TCPConn) {
	if p.excess >= maxExcess {
		reset(conn)
		return
	}
	p.excess++
	go p.refuse(conn, errMany, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.excess--
	})
}

// giveUp refuses a connection that nobody has carried in time.
func (p *Proxy) giveUp(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.waiting[id]; w != nil {
		delete(p.waiting, id)
		go p.refuse(w.conn, errGone, p.leave)
	}
}

// Carry returns a connection that was announced, to whoever asks first. The caller ends it, and
// then calls done.
func (p *Proxy) Carry(id uint64) (conn *net.TCPConn, done func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.waiting[id]
	if w == nil {
		return nil, nil, ErrNoConnection
	}
	delete(p.waiting, id)
	w.over.Stop()
	return w.conn, p.leave, nil
}

// leave notes the end of a connection.
func (p *Proxy) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// reset closes a connection so that the program sees a reset and not an end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
