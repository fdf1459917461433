package egress

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// silentPort returns a port of an address at which nobody answers: connections would
// wait in the queue of a socket that is full.
func silentPort(t *testing.T, addr [4]byte) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: addr}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := name.(*syscall.SockaddrInet4).Port
	conn, err := net.Dial("tcp", netip.AddrPortFrom(netip.AddrFrom4(addr), uint16(port)).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return port
}

func TestSeveralAddressesAreTried(t *testing.T) {
	port := silentPort(t, [4]byte{127, 0, 0, 2})
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.4:%d", port))
	for range 10 { // the port may be taken there
		if err == nil {
			break
		}
		port = silentPort(t, [4]byte{127, 0, 0, 2})
		l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.4:%d", port))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "here")
			conn.Close()
		}
	}()
	var rules []string
	for _, addr := range []string{"127.0.0.2", "127.0.0.3", "127.0.0.4"} { // silent, closed, open
		rules = append(rules, fmt.Sprintf("allowed.test=%s:%d", addr, port))
	}
	f := newFront(t, Options{}, rules...)
	response, conn := f.connect(t, fmt.Sprintf("allowed.test:%d", port))
	if response.StatusCode != 200 || body(t, conn) != "here" {
		t.Fatal(response.Status)
	}
	if d := f.decision(0); d.Address != netip.MustParseAddr("127.0.0.4") {
		t.Errorf("got %+v", d)
	}
}
