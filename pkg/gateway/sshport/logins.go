package sshport

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"

	"github.com/podagent/podagent/pkg/gateway"
)

// logins are the connections of clients that are not let in yet.
type logins struct {
	mu  sync.Mutex
	all map[*loginConn]bool // maxLogins at most
}

type loginConn struct {
	of   *logins
	conn net.Conn
	from netip.Addr // the host, as [gateway.HostOf] has it

	knows bool // it has shown a key that counts; logins.mu guards it
}

// begin counts a connection until it is done. If there are too many of its host, or of all, one of these
// is closed for it.
func (l *logins) begin(conn net.Conn, from netip.Addr) *loginConn {
	added := &loginConn{of: l, conn: conn, from: gateway.HostOf(from)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[*loginConn]bool{}
	}
	own := l.those(func(c *loginConn) bool { return c.from == added.from })
	switch {
	case len(own) >= maxLoginsOf:
		l.evict(own)
	case len(l.all) >= maxLogins:
		l.evict(l.those(func(*loginConn) bool { return true }))
	}
	l.all[added] = true
	return added
}

// done makes a connection count no more.
func (c *loginConn) done() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.all, c)
}

// shows notes that the client has shown a key that counts. It need not have it: public keys are public.
func (c *loginConn) shows() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.knows = true
}

func (l *logins) those(are func(*loginConn) bool) (some []*loginConn) {
	for c := range l.all {
		if are(c) {
			some = append(some, c)
		}
	}
	return some
}

// evict closes one of some connections. Those that have shown a key that counts, and those that have not, do
// not displace each other while they have less than half of the places. Among those of the larger kind, it is
// one of the host that has the most, by chance: nobody stays because of when it came.
func (l *logins) evict(some []*loginConn) {
	kinds := map[bool][]*loginConn{}
	for _, c := range some {
		kinds[c.knows] = append(kinds[c.knows], c)
	}
	kind := kinds[len(kinds[true]) > len(kinds[false])]
	hosts, most := map[netip.Addr]int{}, 0
	for _, c := range kind {
		hosts[c.from]++
		most = max(most, hosts[c.from])
	}
	var worst []*loginConn
	for _, c := range kind {
		if hosts[c.from] == most {
			worst = append(worst, c)
		}
	}
	evicted := worst[rand.IntN(len(worst))]
	delete(l.all, evicted)
	_ = evicted.conn.Close()
}
