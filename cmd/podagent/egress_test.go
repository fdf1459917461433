//go:build !race

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/podapi"
)

// startFencedAgent starts an agent whose commands are fenced and run in a directory with its
// socket, agent. It returns its process, a client of it, and its proxy's address.
func startFencedAgent(t *testing.T, flags ...string) (pid int, client *podapi.Client, proxy string) {
	t.Helper()
	dir := t.TempDir()
	socket := filepath.Join(dir, "agent")
	cmd := programAs(0, append([]string{"podagent", "serve", "--listen", "unix:" + socket, "--workdir", dir, "--journal-dir=", "--egress", "landlock"}, flags...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		info, err := client.Info(t.Context())
		if err == nil {
			return cmd.Process.Pid, client, fmt.Sprint("127.0.0.1:", info.Egress.Port)
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// serveFarEnd serves an agent's connections, each by a function, until the test ends.
func serveFarEnd(t *testing.T, client *podapi.Client, carry func(net.Conn)) {
	t.Helper()
	l, err := farend.Listen(t.Context(), client, farend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) && t.Context().Err() == nil {
					t.Errorf("the far end ended: %v", err)
				}
				return
			}
			go carry(conn)
		}
	}()
}

// echo sends back what it gets.
func echo(conn net.Conn) {
	defer conn.Close()
	_, _ = io.Copy(conn, conn)
}

// movingMemory is what the agent may use while movingConnections move bytes both ways.
const (
	movingConnections = 500
	movingBytes       = 256 << 10
	movingMemory      = 64 << 20
)

func TestAgentStaysSmallWhileHundredsOfConnectionsMove(t *testing.T) {
	pid, client, proxy := startFencedAgent(t)
	serveFarEnd(t, client, echo)
	var all sync.WaitGroup
	for range movingConnections {
		all.Go(func() {
			if err := moves(proxy, movingBytes); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	staysSmall(t, pid)
}

// staysSmall checks the most memory that an agent had, apart from the pages of its program,
// which are the page cache's.
func staysSmall(t *testing.T, pid int) {
	t.Helper()
	peak := peakMemory(t, pid) - programMemory(t, pid)
	t.Logf("the agent used up to %d MiB", peak>>20)
	if peak > movingMemory {
		t.Errorf("the agent used up to %d MiB, want at most %d", peak>>20, movingMemory>>20)
	}
}

// programMemory returns how many bytes of a process's program are resident.
func programMemory(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscanf(line, "%d kB", &bytes); err != nil {
		t.Fatalf("no RssFile in %s", status)
	}
	return bytes << 10
}

// moves sends bytes through the proxy, and reads them as they come back.
func moves(proxy string, bytes int) error {
	conn, err := net.Dial("tcp", proxy)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(hung))
	sent := make(chan error, 1)
	go func() {
		_, err := io.CopyN(conn, zeros{}, int64(bytes))
		sent <- err
	}()
	_, err = io.CopyN(io.Discard, conn, int64(bytes))
	return errors.Join(err, <-sent)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// Nothing that code in the sandbox does to the proxy keeps a connection from being carried
// afterwards, ends the far end, or makes the agent large.
func TestProxySurvivesWhatCodeInTheSandboxDoes(t *testing.T) {
	pid, client, proxy := startFencedAgent(t)
	serveFarEnd(t, client, echo)
	for name, attack := range map[string]func(*testing.T, string){
		"connections that reset at once": func(t *testing.T, proxy string) {
			floodProxy(t, proxy, 8000, func(c *net.TCPConn) { _ = c.SetLinger(0) })
		},
		"connections that end at once": func(t *testing.T, proxy string) {
			floodProxy(t, proxy, 5000, func(*net.TCPConn) {})
		},
		"bytes, and a reset": func(t *testing.T, proxy string) {
			floodProxy(t, proxy, 5000, func(c *net.TCPConn) {
				_, _ = c.Write(bytes.Repeat([]byte("x"), 64<<10))
				_ = c.SetLinger(0)
			})
		},
		"halves that end": func(t *testing.T, proxy string) {
			floodProxy(t, proxy, 5000, func(c *net.TCPConn) { _ = c.CloseWrite() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			attack(t, proxy)
			for deadline := time.Now().Add(hung); ; { // until the places of the flood are free
				err := moves(proxy, 1<<10)
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
		})
	}
	staysSmall(t, pid)
}

// floodProxy opens so many connections, some of them at once, and closes each after do.
func floodProxy(t *testing.T, proxy string, number int, do func(*net.TCPConn)) {
	t.Helper()
	var all sync.WaitGroup
	for range floodWidth {
		all.Go(func() {
			for range number / floodWidth {
				conn, err := net.Dial("tcp", proxy)
				if errors.Is(err, syscall.ECONNRESET) { // there are too many
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				do(conn.(*net.TCPConn))
				conn.Close()
			}
		})
	}
	all.Wait()
}

// The agent's listeners lead nowhere. A command gets to its unix socket, if that has a path, and is not
// answered there.
func TestFencedCommandsAreNotAnsweredByTheAgent(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	health := fmt.Sprint("@podagent-fence-test-", os.Getpid())
	_, client, _ := startFencedAgent(t, "--listen", "tcp:"+address, "--insecure", "--health", "unix:"+health)
	_, port, _ := net.SplitHostPort(address)
	for what, test := range map[string]struct{ python, want string }{
		"its port":            {"socket.create_connection(('127.0.0.1', " + port + "))", "Permission denied"},
		"its health's socket": {`s = socket.socket(socket.AF_UNIX); s.connect('\0` + health[1:] + `')`, "not permitted"},
		"its socket": {`s = socket.socket(socket.AF_UNIX); s.connect('agent')
try: print('answered', s.recv(1))
except ConnectionError as e: print("answered b''")`, "answered b''"},
	} {
		out, _ := client.Command(t.Context(), "python3", "-c", "import socket; "+test.python).CombinedOutput()
		if !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %s, want %s", what, out, test.want)
		}
	}
	for _, address := range []string{address, health} { // they are there
		network := map[bool]string{true: "unix", false: "tcp"}[address == health]
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}
