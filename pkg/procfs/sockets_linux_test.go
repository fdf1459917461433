package procfs

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

func TestListenersHaveTheSocketsOfTheirProcesses(t *testing.T) {
	var fs FS
	for _, address := range []string{"127.0.0.1:0", "127.1.2.3:0", "0.0.0.0:0", "[::1]:0", "[::]:0", "[::ffff:127.0.0.1]:0"} {
		network := "tcp"
		if address == "0.0.0.0:0" { // which tcp takes for both
			network = "tcp4"
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial("tcp", l.Addr().String()) // a socket at the same port, which does not listen
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		host := netip.MustParseAddrPort(address).Addr().Unmap()
		want := netip.AddrPortFrom(host, uint16(l.Addr().(*net.TCPAddr).Port))
		inodes := map[uint64]bool{}
		all, err := fs.Listeners(func(l Listener) {
			if l.Address == want {
				inodes[l.Inode] = true
			}
		})
		if !all || err != nil || len(inodes) != 1 {
			t.Errorf("%v: %d sockets, all: %v, %v", want, len(inodes), all, err)
		}
		found := false
		looked, err := fs.Sockets(os.Getpid(), 1<<20, func(inode uint64) bool {
			found = found || inodes[inode]
			return true
		})
		if !found || looked < 4 || err != nil {
			t.Errorf("%v is not among %d descriptors: %v", want, looked, err)
		}
	}
	if looked, err := fs.Sockets(os.Getpid(), 2, func(uint64) bool { return true }); looked != 2 || err != nil {
		t.Errorf("it looked at %d descriptors: %v", looked, err)
	}
}

func TestLinesThatNameNoListener(t *testing.T) {
	for _, test := range [][2]string{
		{"", "1"}, {"0100007F", "1"}, {"0100007F:", "1"}, {"0100007F:0000", "1"}, {"0100007F:1F900", "1"}, {"0100:1F90", "1"}, {"0100007:1F90", "1"}, {"0100007F0100007F:1F90", "1"}, {"0100007F:1F90", ""}, {"0100007F:1F90", "-1"},
	} {
		if l, ok := parseListener([]byte(test[0]), []byte(test[1])); ok {
			t.Errorf("%q: %+v", test, l)
		}
	}
}
