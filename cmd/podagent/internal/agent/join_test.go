package agent

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestJoinCarriesCallsAndEndsWithThem(t *testing.T) {
	dir, socket := serveTest(t, nil)
	ended := make(chan error, 1)
	c := dial(t, podapi.DialOptions{Dial: func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			ended <- Join(t.Context(), "unix:"+socket, far, far)
			far.Close()
		}()
		return near, nil
	}})
	content := bytes.Repeat([]byte("x"), 8<<20)
	name := filepath.Join(dir, "file")
	if err := c.WriteFile(t.Context(), name, content, 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := c.ReadFile(t.Context(), name); err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	c.Close()
	awaitJoin(t, ended)
}

// awaitJoin waits for a Join to end without an error.
func awaitJoin(t *testing.T, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(hung):
		t.Fatal("it did not end")
	}
}

// agentThat listens in place of an agent.
func agentThat(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		conn, err := l.Accept()
		if err == nil {
			serve(conn)
			conn.Close()
		}
	}()
	return "tcp:" + l.Addr().String()
}

func TestJoinEndsWithTheAgentThoughItsInputDoesNot(t *testing.T) {
	in, _ := io.Pipe()
	var out strings.Builder
	ended := make(chan error, 1)
	ended <- Join(t.Context(), agentThat(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "bye") }), in, &out)
	awaitJoin(t, ended)
	if out.String() != "bye" {
		t.Errorf("its output is %q", &out)
	}
}

func TestJoinEndsSoonAfterItsInputThoughTheAgentDoesNot(t *testing.T) {
	got := make(chan string, 1)
	address := agentThat(t, func(conn net.Conn) {
		data, _ := io.ReadAll(conn)
		got <- string(data)
		<-t.Context().Done()
	})
	if err := Join(t.Context(), address, strings.NewReader("all"), io.Discard); err == nil || !strings.Contains(err.Error(), "did not close") {
		t.Errorf("it ended with %v", err)
	}
	if data := <-got; data != "all" {
		t.Errorf("the agent got %q", data)
	}
}
