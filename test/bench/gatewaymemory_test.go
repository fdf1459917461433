package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/errgroup"
)

// What one gateway carries, and the memory that it may take for that, in MiB.
const (
	idleSockets   = 1000
	busySockets   = 200
	gatewayMemory = 256
	// socketSandboxes share the WebSockets: an agent serves 512 connections to ports at a time.
	socketSandboxes = 4
	echoes          = 200 // of each busy one
	echoSize        = 4 << 10
)

// BenchmarkGatewayMemory measures the memory of a gateway that is a program of its own, with many
// WebSockets open: terminals, and those of servers in sandboxes.
func BenchmarkGatewayMemory(b *testing.B) {
	b.Run("terminals", func(b *testing.B) {
		measureSockets(b, "terminals", func(b *testing.B, d *door) opener { return d.openTerminal })
	})
	b.Run("routed", func(b *testing.B) {
		measureSockets(b, "servers in sandboxes", func(b *testing.B, d *door) opener {
			port := startSocketServer(b)
			return func(ctx context.Context, sandbox string) (*socket, error) { return d.openRouted(ctx, sandbox, port) }
		})
	})
}

// opener opens a WebSocket to a sandbox.
type opener func(ctx context.Context, sandbox string) (*socket, error)

func measureSockets(b *testing.B, to string, prepare func(*testing.B, *door) opener) {
	p, d := startGateway(b)
	open := prepare(b, d)
	for i := range socketSandboxes {
		d.post(b, "/api/v1/sandboxes", fmt.Sprintf(`{"id":"bench-%d"}`, i))
	}
	empty := p.residentMemory(b)
	idle := openSockets(b, idleSockets, open)
	publish(b, newRow("cost", fmt.Sprintf("memory of a gateway with %d idle WebSockets to %s", idleSockets, to), "MiB", once("podagent's gateway", p.residentMemory(b))).
		beside(once("the same gateway without them", empty)))
	busy := openSockets(b, busySockets, open)
	most, err := p.mostMemory(b, func() error { return echoAll(busy) })
	if err != nil {
		b.Fatal(err)
	}
	if err := echoAll(idle[:1]); err != nil {
		b.Fatalf("an idle one: %v", err)
	}
	publish(b, newRow("cost", fmt.Sprintf("most memory of a gateway with %d idle WebSockets to %s and %d that echo %d KiB", idleSockets, to, busySockets, echoSize>>10), "MiB", once("podagent's gateway", most))).
		limit("limit", gatewayMemory)
}

// startGateway starts a gateway over the sandboxes of this machine.
func startGateway(b *testing.B) (*program, *door) {
	b.Helper()
	token := filepath.Join(b.TempDir(), "token")
	if err := os.WriteFile(token, []byte(doorToken), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Setenv("XDG_STATE_HOME", b.TempDir())
	b.Setenv("XDG_CONFIG_HOME", b.TempDir())
	path := buildIn(b, filepath.Join("..", ".."), "orchestrator", "./cmd/orchestrator")
	p := startProgram(b, path, "gateway", "--backend", "local", "--listen", "127.0.0.1:0", "--token-file", token)
	d := &door{p.line(b)}
	b.Cleanup(func() { // before the gateway ends
		for i := range socketSandboxes {
			req, err := http.NewRequest(http.MethodDelete, fmt.Sprintf("%s/api/v1/sandboxes/bench-%d", d.url, i), nil)
			if err == nil {
				req.Header.Set("Authorization", "Bearer "+doorToken)
				err = answered(req)
			}
			if err != nil {
				b.Error(err)
			}
		}
	})
	return p, d
}

// mostMemory returns the most memory that the process has while do is done.
func (p *program) mostMemory(b *testing.B, do func() error) (most float64, err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		most = max(most, p.residentMemory(b))
		select {
		case err := <-done:
			return most, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// startSocketServer starts a server whose WebSockets echo, and returns its port. Sandboxes of this
// machine have its ports.
func startSocketServer(b *testing.B) int {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			kind, message, err := conn.ReadMessage()
			if err != nil || conn.WriteMessage(kind, message) != nil {
				return
			}
		}
	}))
	b.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// openSockets opens as many WebSockets, some at once, which end with the benchmark.
func openSockets(b *testing.B, n int, open opener) []*socket {
	b.Helper()
	all := make([]*socket, n)
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(16)
	for i := range all {
		group.Go(func() (err error) {
			all[i], err = open(ctx, fmt.Sprint("bench-", i%socketSandboxes))
			return err
		})
	}
	err := group.Wait()
	b.Cleanup(func() {
		for _, s := range all {
			if s != nil {
				s.Close()
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return all
}

// socket is a WebSocket whose other end echoes.
type socket struct {
	*websocket.Conn
	terminal bool
	offset   int64 // of a terminal's input
}

func (d *door) dial(ctx context.Context, path string, header http.Header, protocols ...string) (*websocket.Conn, error) {
	header.Set("Authorization", "Bearer "+doorToken)
	dialer := websocket.Dialer{Subprotocols: protocols}
	conn, answer, err := dialer.DialContext(ctx, strings.Replace(d.url, "http", "ws", 1)+path, header)
	if err != nil && answer != nil {
		err = fmt.Errorf("%w: %s", err, answer.Status)
	}
	return conn, err
}

// openTerminal opens a terminal that echoes every byte, and waits until it does.
func (d *door) openTerminal(ctx context.Context, sandbox string) (*socket, error) {
	conn, err := d.dial(ctx, "/api/v1/sandboxes/"+sandbox+"/terminal?script=stty+raw+-echo%3B+printf+ready%3B+exec+cat", http.Header{}, "podagent.terminal.v1")
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn, terminal: true}
	return s, s.output(len("ready"))
}

func (d *door) openRouted(ctx context.Context, sandbox string, port int) (*socket, error) {
	conn, err := d.dial(ctx, "/", http.Header{"X-Sandbox-Id": {sandbox}, "X-Sandbox-Port": {fmt.Sprint(port)}})
	if err != nil {
		return nil, err
	}
	return &socket{Conn: conn}, nil
}

// output waits for so many bytes of a terminal's output.
func (s *socket) output(size int) error {
	for size > 0 {
		kind, message, err := s.ReadMessage()
		if err != nil {
			return err
		}
		if kind == websocket.BinaryMessage {
			size -= len(message) - 8 // see docs/gateway.md: it begins with an offset
		}
	}
	return nil
}

// echo sends bytes, and waits for their return.
func (s *socket) echo(data []byte) error {
	if !s.terminal {
		if err := s.WriteMessage(websocket.BinaryMessage, data); err != nil {
			return err
		}
		_, message, err := s.ReadMessage()
		if err == nil && !bytes.Equal(message, data) {
			err = fmt.Errorf("%d other bytes came back", len(message))
		}
		return err
	}
	frame := append(binary.BigEndian.AppendUint64(nil, uint64(s.offset)), data...)
	if err := s.WriteMessage(websocket.BinaryMessage, frame); err != nil {
		return err
	}
	s.offset += int64(len(data))
	return s.output(len(data))
}

// echoAll lets all echo at once, often.
func echoAll(all []*socket) error {
	var group errgroup.Group
	data := random(echoSize)
	for _, s := range all {
		group.Go(func() error {
			for range echoes {
				if err := s.echo(data); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
