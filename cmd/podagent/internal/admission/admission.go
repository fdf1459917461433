// Package admission bounds what connections cost a gRPC server: those whose caller it
// does not know yet, since anybody who reaches the server can open thousands of them, and
// those of known callers, since a caller may forget its own.
//
// A [Gate] stands between a listener and a server. A connection is a stranger until its
// handshake has succeeded, and known from then on. The gate has room for some of each.
// When there is no room for a newcomer, the source with the most connections gives up one
// of them: see [Bounds]. Sources are callers that can be told apart before the handshake:
// a connection from the same network namespace by the owner of the peer's socket, any
// other by its address. So a flood from one source does not lock out others,
// such as a port-forward, which enters the pod's network namespace as the node's root.
package admission

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
)

// errNoRoom ends the connections that the gate does not let in, or drops.
var errNoRoom = errors.New("there are too many connections")

// Bounds say how many connections a [Gate] keeps, and for how long it keeps strangers.
type Bounds struct {
	// Strangers bounds the connections in their handshake. If there are as many, and one
	// source has more of them than the newcomer's would have, one of that source is
	// dropped, at random. Otherwise nobody has more than a share, and a newcomer takes a
	// random one's place only so often that an average stranger keeps it for Patience.
	// Other newcomers are refused.
	//
	// Chance decides, because a flood could foresee anything else, and take each place
	// as it becomes free.
	Strangers int
	Patience  time.Duration
	// Known bounds the connections after their handshake. If there are as many, the
	// source with the most connections without a call loses the one that has been
	// without a call for longest. A newcomer is refused only if all have calls.
	Known int
}

// Gate decides which connections a server keeps. Its methods may be called concurrently.
type Gate struct {
	bounds Bounds

	mu        sync.Mutex
	strangers []*conn
	known     []*conn
	// dropped counts the connections that the gate has closed, and whose memory the
	// server still holds, since it has yet to notice.
	dropped int
	turn    time.Time // when a newcomer may next take a stranger's place in turn
}

// NewGate returns a gate with these bounds.
func NewGate(bounds Bounds) *Gate { return &Gate{bounds: bounds} }

// conn is a connection that the gate has let in. The gate's lock guards its state.
type conn struct {
	net.Conn
	gate   *Gate
	source source

	state  state
	caller credentials.AuthInfo // of a known one
	calls  int
	since  time.Time // when it became known, or its last call ended
}

type state int

const (
	stranger state = iota
	known
	dropped
	closed
)

// Close is what the server calls when it is done with the connection.
func (c *conn) Close() error {
	c.gate.leave(c)
	return c.Conn.Close()
}

// leave forgets a connection.
func (g *Gate) leave(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.state == dropped {
		g.dropped--
	}
	g.remove(c)
	c.state = closed
}

// remove takes a connection out of the list that it is in, if any.
func (g *Gate) remove(c *conn) {
	switch c.state {
	case stranger:
		g.strangers = without(g.strangers, c)
	case known:
		g.known = without(g.known, c)
	}
}

// drop closes a connection. The server holds it until it notices.
func (g *Gate) drop(c *conn) {
	g.remove(c)
	c.state = dropped
	g.dropped++
	c.Conn.Close()
}

// admit lets in a newcomer as a stranger, and reports whether there is room.
func (g *Gate) admit(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// A server that is slow to notice dropped connections gets no new ones meanwhile.
	if g.dropped >= g.bounds.Strangers {
		return false
	}
	if len(g.strangers) >= g.bounds.Strangers && !g.replaceStranger(c.source) {
		return false
	}
	g.strangers = append(g.strangers, c)
	return true
}

// replaceStranger drops a stranger for one from this source, if it may.
func (g *Gate) replaceStranger(from source) bool {
	largest, own := shares(g.strangers, from)
	if len(largest) <= own+1 && !g.takeTurn() {
		return false
	}
	g.drop(largest[rand.IntN(len(largest))])
	return true
}

// takeTurn reports whether a stranger may be dropped although no source has too many. The
// times between turns are random, so that nobody can come just when there is one.
func (g *Gate) takeTurn() bool {
	now := time.Now()
	if now.Before(g.turn) {
		return false
	}
	average := g.bounds.Patience / time.Duration(g.bounds.Strangers)
	g.turn = now.Add(time.Duration(rand.ExpFloat64() * float64(average)))
	return true
}

// Expel drops the known connections of callers that are not welcome any more, with their
// calls.
func (g *Gate) Expel(welcome func(credentials.AuthInfo) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range slices.Clone(g.known) {
		if !welcome(c.caller) {
			g.drop(c)
		}
	}
}

// recognize makes a stranger known, if there is room.
func (g *Gate) recognize(c *conn, caller credentials.AuthInfo) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.state != stranger {
		return errNoRoom
	}
	if len(g.known) >= g.bounds.Known && !g.replaceKnown(c.source) {
		return errNoRoom
	}
	g.remove(c)
	c.state, c.caller, c.since = known, caller, time.Now()
	g.known = append(g.known, c)
	return nil
}

// replaceKnown drops a known connection without a call for one from this source, if
// there is one.
func (g *Gate) replaceKnown(from source) bool {
	var idle []*conn
	for _, c := range g.known {
		if c.calls == 0 {
			idle = append(idle, c)
		}
	}
	if len(idle) == 0 {
		return false
	}
	largest, _ := shares(idle, from)
	victim := largest[0]
	for _, c := range largest {
		if c.since.Before(victim.since) {
			victim = c
		}
	}
	g.drop(victim)
	return true
}

// shares returns the connections of the source that has the most, and how many the
// source from has.
func shares(conns []*conn, from source) (largest []*conn, own int) {
	count := map[source]int{}
	top := conns[0].source
	for _, c := range conns {
		count[c.source]++
		if count[c.source] > count[top] {
			top = c.source
		}
	}
	for _, c := range conns {
		if c.source == top {
			largest = append(largest, c)
		}
	}
	return largest, count[from]
}

// without removes c from conns. The order of the others may change.
func without(conns []*conn, c *conn) []*conn {
	last := len(conns) - 1
	for i := range conns {
		if conns[i] == c {
			conns[i], conns[last] = conns[last], nil
			return conns[:last]
		}
	}
	return conns
}
