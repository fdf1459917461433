package sshport

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// testLogin is the connection of a client that logs in. It notes that it was closed.
type testLogin struct {
	net.Conn
	*loginConn
	closed bool
}

func (c *testLogin) Close() error {
	c.closed = true
	return nil
}

// comes has a client of a host come.
func (l *logins) comes(host uint16) *testLogin {
	c := &testLogin{}
	c.loginConn = l.begin(c, netip.AddrFrom4([4]byte{10, 0, byte(host >> 8), byte(host)}))
	return c
}

func TestSilentConnectionsOfAFewHostsDisplaceEachOther(t *testing.T) {
	var l logins
	client := l.comes(1000)
	for i := range uint16(2000) {
		l.comes(i % 15)
	}
	if client.closed || len(l.all) > maxLogins {
		t.Errorf("closed: %t, of %d", client.closed, len(l.all))
	}
}

func TestSilentConnectionsDoNotDisplaceAClientThatHasShownItsKey(t *testing.T) {
	for what, host := range map[string]func(i uint16) uint16{
		"from many hosts": func(i uint16) uint16 { return i },
		"from its own":    func(uint16) uint16 { return 1000 },
	} {
		var l logins
		client := l.comes(1000)
		client.shows()
		for i := range uint16(900) {
			l.comes(host(i))
		}
		if client.closed {
			t.Error(what)
		}
	}
}

// Public keys are public: others may show them, too.
func TestClientsThatShowKeysLeaveRoomForNewcomers(t *testing.T) {
	var l logins
	var hostile []*testLogin
	for i := range uint16(maxLogins) {
		c := l.comes(i)
		c.shows()
		hostile = append(hostile, c)
	}
	client := l.comes(1000)
	for i := range uint16(100) {
		l.comes(2000 + i).shows()
	}
	if client.closed || !slices.ContainsFunc(hostile, func(c *testLogin) bool { return c.closed }) {
		t.Error("a newcomer has no room")
	}
	client.done()
	if before := len(l.all); l.all[client.loginConn] || before > maxLogins {
		t.Errorf("it counts still, of %d", before)
	}
}
