package admission

import (
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// A test program that is started with this variable connects to the address in it.
const connectTo = "PODAGENT_TEST_CONNECT"

func TestMain(m *testing.M) {
	if address := os.Getenv(connectTo); address != "" {
		connect(address)
		return
	}
	os.Exit(m.Run())
}

// connect holds a connection until standard input ends.
func connect(address string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestOwnersOfLocalPeersAreToldApart(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := openPeers()
		defer p.close()
		own, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if from, present := p.source(accept(t, l)); !present || from.owner.uid != uint32(os.Getuid()) || from.address.IsValid() {
			t.Errorf("at %s, a connection of its own comes from %+v, %v", address, from, present)
		}
		connectAs(t, l.Addr().String(), 12345)
		if from, present := p.source(accept(t, l)); !present || from.owner.uid != 12345 {
			t.Errorf("at %s, a connection of uid 12345 comes from %+v, %v", address, from, present)
		}
		own.Close()
	}
}

// The kernel says that the socket of nobody is root's.
func TestPeersThatHaveClosedTheirSocketAreNotPresent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := openPeers()
	defer p.close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if from, present := p.source(accept(t, l)); present {
		t.Errorf("it comes from %+v", from)
	}
}

func accept(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// connectAs connects as a user until the test ends.
func connectAs(t *testing.T, address string, uid uint32) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), connectTo+"="+address)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
}
