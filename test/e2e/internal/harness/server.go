package harness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
)

// StartServer runs test/e2e/testdata/server in the sandbox, and returns its ports
// by name.
func StartServer(t *testing.T, s *launcher.Sandbox) map[string]int {
	t.Helper()
	PutProgram(t, s, "server")
	cmd := s.Command(t.Context(), "./server")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return PortsOf(t, out)
}

// PortsOf parses the output of that server.
func PortsOf(t *testing.T, out io.Reader) map[string]int {
	t.Helper()
	ports := map[string]int{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var name string
		var port int
		if lines.Text() == "ready" {
			return ports
		}
		if _, err := fmt.Sscan(lines.Text(), &name, &port); err != nil {
			t.Fatalf("the server prints %q: %v", lines.Text(), err)
		}
		ports[name] = port
	}
	t.Fatal("the server did not start")
	return nil
}

// Conn is a connection to a port, with its methods beside those of a net.Conn.
type Conn interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
}

// Dial connects to a port of the sandbox until the test ends.
func Dial(t *testing.T, s *launcher.Sandbox, port int) Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Hung)
	defer cancel()
	conn, err := s.Dial(ctx, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(Conn)
}
