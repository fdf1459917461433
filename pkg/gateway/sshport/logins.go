package sshport

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// logins are the connections of clients that are not let in yet.
type logins struct {
	mu     sync.Mutex
	all    list.List // of *loginConn, the first of them first
	byHost map[netip.Addr]*list.List
}

type loginConn struct {
	conn         net.Conn
	from         netip.Addr
	inAll, inOwn *list.Element // nil when it counts no more
}

// begin counts a connection until done is called. If there are too many, it closes the first one: of its
// address, or else of all.
func (l *logins) begin(conn net.Conn, from netip.Addr) (done func()) {
	added := &loginConn{conn: conn, from: network(from)}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byHost == nil {
		l.byHost = map[netip.Addr]*list.List{}
	}
	own := l.byHost[added.from]
	if own == nil {
		own = list.New()
		l.byHost[added.from] = own
	}
	added.inAll, added.inOwn = l.all.PushBack(added), own.PushBack(added)
	switch {
	case own.Len() > maxLoginsOf:
		l.evict(own)
	case l.all.Len() > maxLogins:
		l.evict(&l.all)
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.forget(added)
	}
}

// evict closes the first of a list.
func (l *logins) evict(of *list.List) {
	first := of.Front().Value.(*loginConn)
	l.forget(first)
	_ = first.conn.Close()
}

// forget makes a connection count no more.
func (l *logins) forget(c *loginConn) {
	if c.inAll == nil {
		return
	}
	l.all.Remove(c.inAll)
	own := l.byHost[c.from]
	if own.Remove(c.inOwn); own.Len() == 0 {
		delete(l.byHost, c.from)
	}
	c.inAll, c.inOwn = nil, nil
}

// network returns the address, or for IPv6 the network that a host has.
func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		prefix, _ := addr.Prefix(64)
		return prefix.Addr()
	}
	return addr
}
