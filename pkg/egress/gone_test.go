package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// mortals is a listener whose connections have a life, as those of an agent have.
type mortals struct {
	net.Listener
	life context.Context
}

func (m mortals) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return mortal{conn.(*net.TCPConn), m.life}, nil
}

type mortal struct {
	*net.TCPConn
	life context.Context
}

func (m mortal) Context() context.Context { return m.life }

// While the far end waits for a host that reads nothing, it does not read what the program says last.
func TestUploadOfAProgramThatIsGoneIsResetIfTheHostDoesNotTakeIt(t *testing.T) {
	over, saw := make(chan struct{}), make(chan error, 1)
	port := serveEach(t, func(c *net.TCPConn) {
		<-over
		_, err := io.Copy(io.Discard, c)
		saw <- err
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	life, end := context.WithCancel(t.Context())
	s := start(context.Background(), mortals{l, life}, Options{Policy: policyOf(t, named("host.test", port)), goneTime: time.Millisecond}, nil)
	defer s.Close()
	f := &front{Server: s, addr: l.Addr().String()}
	_, program := f.connect(t, fmt.Sprint("host.test:", port))
	end()
	buffer := make([]byte, 1<<20)
	for err = nil; err == nil; { // it ends by the reset alone
		_, err = program.Write(buffer)
	}
	close(over)
	if err := <-saw; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the host sees %v", err)
	}
	for deadline := time.Now().Add(hung); s.Connections() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection keeps its place")
		}
	}
}
