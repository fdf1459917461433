package agent

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/podapi"
)

// tcpPair returns a connection's socket of a program, and the other one.
func tcpPair(t *testing.T) (program, own *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	program, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	if own, err = l.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close(); own.Close() })
	return program, own
}

// resetNow closes a connection by a reset.
func resetNow(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	conn.Close()
}

// awaitReset waits until a socket has failed.
func awaitReset(t *testing.T, p *presence) {
	t.Helper()
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		if reset, _ := p.look(); reset {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the socket does not fail")
		}
	}
}

func TestProgramThatEndsItsDirectionsIsPresent(t *testing.T) {
	program, own := tcpPair(t)
	p := &presence{socket: own}
	for what, do := range map[string]func(){
		"nothing ends":    func() {},
		"its end":         func() { _ = program.CloseWrite(); _, _ = io.Copy(io.Discard, own) },
		"both directions": func() { _ = program.CloseWrite(); _ = own.CloseWrite(); _, _ = io.Copy(io.Discard, program) },
	} {
		do()
		for range 2 * mostStalls {
			if p.isOver(true) || p.isOver(false) {
				t.Errorf("after %s, it is over", what)
			}
		}
	}
}

func TestProgramThatIsGoneAfterItsEndIsMissed(t *testing.T) {
	program, own := tcpPair(t)
	_ = program.CloseWrite()
	if _, err := io.Copy(io.Discard, own); err != nil {
		t.Fatal(err)
	}
	resetNow(program)
	p := &presence{socket: own}
	awaitReset(t, p)
	if !p.isOver(true) {
		t.Error("the connection goes on")
	}
}

// What a program sent before it was gone may be taken, as long as somebody takes of it.
func TestBytesOfAProgramThatIsGoneAreKeptWhileTheyAreTaken(t *testing.T) {
	program, own := tcpPair(t)
	if _, err := program.Write([]byte("ab")); err != nil {
		t.Fatal(err)
	}
	p := &presence{socket: own}
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		if _, unread := p.look(); unread == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the bytes do not come")
		}
	}
	resetNow(program)
	awaitReset(t, p)
	periods := func() (n int) {
		for n = 1; !p.isOver(false); n++ {
			if n > 2*mostStalls {
				t.Fatal("the connection goes on")
			}
		}
		return n
	}
	if n := periods(); n != mostStalls+1 {
		t.Errorf("after %d periods it is over, want %d", n, mostStalls+1)
	}
	if _, err := io.ReadFull(own, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if n := periods(); n != mostStalls+1 {
		t.Errorf("after a byte was taken, it is over after %d periods, want %d", n, mostStalls+1)
	}
}

// A far end that neither reads nor writes learns that a program is gone, and the connection's place is
// free.
func TestConnectionOfAProgramThatIsGoneEndsThoughNobodyReadsIt(t *testing.T) {
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	l, states := serveEgress(t, client, farend.Options{})
	port := (<-states).Port
	for what, end := range map[string]func(program *net.TCPConn, conn net.Conn){
		"a reset": func(program *net.TCPConn, _ net.Conn) { resetNow(program) },
		"its end, and a reset": func(program *net.TCPConn, conn net.Conn) {
			_ = program.CloseWrite()
			if n, err := io.Copy(io.Discard, conn); n != 0 || err != nil {
				t.Errorf("the far end reads %d bytes, %v", n, err)
			}
			resetNow(program)
		},
	} {
		program := throughProxy(t, port)
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		end(program, conn)
		select {
		case <-conn.(interface{ Context() context.Context }).Context().Done():
		case <-time.After(hung):
			t.Errorf("after %s, the connection goes on", what)
		}
	}
}
