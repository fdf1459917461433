package admission

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
)

// The sources of the tests' connections.
var (
	node    = source{owner: owner{uid: 0, cgroup: 1}}
	sandbox = source{owner: owner{uid: 1000, cgroup: 2}}
	pod     = source{address: netip.MustParseAddr("10.0.0.1")}
)

// end is one end of a connection, and knows whether it is closed.
type end struct {
	net.Conn
	closed bool
}

func (e *end) Close() error {
	e.closed = true
	return nil
}

// arrive lets a newcomer in, if there is room.
func arrive(g *Gate, from source) (c *conn, ok bool) {
	c = &conn{Conn: new(end), gate: g, source: from}
	return c, g.admit(c)
}

// alive counts the connections that have not been closed.
func alive(conns []*conn) (n int) {
	for _, c := range conns {
		if !c.Conn.(*end).closed {
			n++
		}
	}
	return n
}

// recognized returns a known connection.
func recognized(t *testing.T, g *Gate, from source) *conn {
	t.Helper()
	c, ok := arrive(g, from)
	if !ok {
		t.Fatal("there is no room for a stranger")
	}
	if err := g.recognize(c, nil); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFloodFromOneSourceLeavesOthersTheirShare(t *testing.T) {
	g := NewGate(Bounds{Strangers: 10, Patience: time.Hour, Known: 1})
	var flood, others []*conn
	for range 1000 {
		if c, ok := arrive(g, sandbox); ok {
			flood = append(flood, c)
		}
	}
	for _, from := range []source{node, pod, node, pod, node, pod} {
		c, ok := arrive(g, from)
		if !ok {
			t.Fatalf("%+v is locked out", from)
		}
		others = append(others, c)
		for _, f := range flood { // the server notices
			if f.state == dropped {
				f.Close()
			}
		}
		for range 100 {
			arrive(g, sandbox)
		}
	}
	if n := alive(others); n != len(others) {
		t.Errorf("%d of %d are left", n, len(others))
	}
	if n := len(g.strangers); n != 10 {
		t.Errorf("there are %d strangers", n)
	}
}

// A stranger that needs a quarter of the patience mostly has it, and one that tries again
// and again gets in, although others of the same source come four times as often as there
// are turns.
func TestStrangersOfOneSourceTakeTurnsAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 4 * time.Second
		g := NewGate(Bounds{Strangers: 100, Patience: patience, Known: 1})
		arrived, lasted := 0, 0
		for range 300 {
			time.Sleep(patience / 800)
			c, ok := arrive(g, sandbox)
			for range 100 {
				time.Sleep(patience / 400)
				arrive(g, sandbox)
				g.notice()
			}
			if ok {
				arrived++
				if c.state == stranger {
					lasted++
				}
			}
		}
		t.Logf("of 300, %d got in, and %d of them lasted", arrived, lasted)
		if arrived == 0 || lasted < arrived/2 {
			t.Error("that is less than half")
		}
	})
}

// notice has the server notice that connections were dropped.
func (g *Gate) notice() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropped = 0
}

func TestServerThatIsSlowToNoticeGetsNoMore(t *testing.T) {
	g := NewGate(Bounds{Strangers: 10, Known: 10})
	let := 0
	for range 1000 {
		if _, ok := arrive(g, pod); ok {
			let++
		}
	}
	if let != 20 {
		t.Errorf("%d are let in, want 10, and 10 for those", let)
	}
}

func TestTheConnectionThatIsIdleForLongestGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(Bounds{Strangers: 10, Known: 3})
		var conns []*conn
		for range 3 {
			conns = append(conns, recognized(t, g, node))
			time.Sleep(time.Second)
		}
		if !conns[0].begin() {
			t.Error("a call cannot begin")
		}
		recognized(t, g, node)
		if conns[0].state != known || conns[1].state != dropped || conns[2].state != known {
			t.Errorf("the states are %v, %v and %v", conns[0].state, conns[1].state, conns[2].state)
		}
		if conns[1].begin() {
			t.Error("a call begins on a connection that was dropped")
		}
		conns[0].end()
		recognized(t, g, node)
		if conns[0].state != known || conns[2].state != dropped {
			t.Error("the end of a call is no activity")
		}
	})
}

func TestIdleConnectionsGiveWayFirstWhereTheyAreMany(t *testing.T) {
	g := NewGate(Bounds{Strangers: 10, Known: 5})
	few := recognized(t, g, node)
	for range 100 {
		recognized(t, g, pod)
		g.notice()
	}
	if few.state != known {
		t.Error("the only connection of a source gave way to those of another")
	}
}

type named struct{ credentials.AuthInfo }

// A caller that is not welcome any more loses its connections with their calls. No other does.
func TestCallersThatAreNotWelcomeAreExpelled(t *testing.T) {
	g := NewGate(Bounds{Strangers: 10, Known: 10})
	stays, goes := named{}, new(named)
	conns := map[*conn]bool{}
	for i := range 6 {
		c, _ := arrive(g, node)
		var caller credentials.AuthInfo = stays
		if i%2 == 0 {
			caller = goes
		}
		if err := g.recognize(c, caller); err != nil {
			t.Fatal(err)
		}
		c.begin()
		conns[c] = caller == stays
	}
	stranger, _ := arrive(g, node)
	g.Expel(func(caller credentials.AuthInfo) bool { return caller == stays })
	for c, left := range conns {
		if c.Conn.(*end).closed == left {
			t.Errorf("one that stays %t is closed: %t", left, !left)
		}
	}
	if stranger.Conn.(*end).closed {
		t.Error("one that nobody knows yet is closed")
	}
}

func TestConnectionsWithCallsAreNotDropped(t *testing.T) {
	g := NewGate(Bounds{Strangers: 10, Known: 2})
	for range 2 {
		recognized(t, g, node).begin()
	}
	c, ok := arrive(g, node)
	if !ok {
		t.Fatal("there is no room for a stranger")
	}
	if err := g.recognize(c, nil); !errors.Is(err, errNoRoom) {
		t.Errorf("one more is known: %v", err)
	}
}

func TestClosedConnectionsLeaveNothing(t *testing.T) {
	g := NewGate(Bounds{Strangers: 2, Known: 2})
	for range 100 {
		a, b := recognized(t, g, node), recognized(t, g, pod)
		c, ok := arrive(g, pod)
		if !ok {
			t.Fatal("there is no room")
		}
		d := recognized(t, g, node) // a or b is dropped
		for _, c := range []*conn{a, b, c, d, a} {
			c.Close()
		}
	}
	if len(g.strangers) != 0 || len(g.known) != 0 || g.dropped != 0 {
		t.Errorf("there are %d strangers, %d known and %d dropped", len(g.strangers), len(g.known), g.dropped)
	}
}

func TestCallsFindTheirConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := NewGate(Bounds{Strangers: 1, Known: 1})
	gated := g.Listener(l)
	defer gated.Close()
	other, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	raw, err := gated.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	_, info, err := g.Credentials(insecure.NewCredentials()).ServerHandshake(raw)
	if err != nil {
		t.Fatal(err)
	}
	ctx := peer.NewContext(context.Background(), &peer.Peer{AuthInfo: info})
	end, err := Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if c := raw.(*conn); c.calls != 1 || c.state != known {
		t.Errorf("it has %d calls in state %v", c.calls, c.state)
	}
	if end(); raw.(*conn).calls != 0 {
		t.Error("the call does not end")
	}
	if _, err := Begin(context.Background()); err != nil {
		t.Errorf("a call by no connection: %v", err)
	}
}
