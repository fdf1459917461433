package podapi_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// The tests of this file are about many connections to ports, and slow ones.

// A reader who is slow, and a server that does not read, hold up neither other
// connections nor the other direction of their own.
func TestSlowSideHoldsUpNobody(t *testing.T) {
	const size = 32 << 20
	fill := serveEach(t, func(conn *net.TCPConn) { _, _ = io.Copy(conn, zeros{}) })
	stuck := serveEach(t, func(conn *net.TCPConn) { <-t.Context().Done() })
	busy := serveEach(t, func(conn *net.TCPConn) { // sends for ever, and counts what comes
		go func() { _, _ = io.Copy(conn, zeros{}) }()
		_, _ = io.CopyN(io.Discard, conn, size)
	})
	c := newCable(t).client(t)
	for range 8 {
		dialPort(t, c, fill) // and nobody reads
		conn := dialPort(t, c, stuck)
		go func() { _, _ = io.Copy(conn, zeros{}) }()
	}
	conn := dialPort(t, c, busy)
	if n, err := io.Copy(conn, io.LimitReader(zeros{}, size)); err != nil || n != size {
		t.Errorf("%d bytes were written against those that nobody reads: %v", n, err)
	}
	conn = dialPort(t, c, serveEach(t, echo))
	go func() { _, _ = io.Copy(conn, io.LimitReader(zeros{}, size)) }()
	if n, err := io.CopyN(io.Discard, conn, size); err != nil {
		t.Errorf("%d bytes came back beside those who are slow: %v", n, err)
	}
}

func Test64ConnectionsAtOnceLeaveNothing(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	c, port := w.client(t), serveEach(t, echo)
	sockets := agentSockets(t, c)
	before := sockets()
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			conn := dialPort(t, c, port)
			defer conn.Close()
			go func() {
				_, _ = io.Copy(conn, io.LimitReader(zeros{}, 1<<20))
				_ = conn.CloseWrite()
			}()
			if n, err := io.Copy(io.Discard, conn); n != 1<<20 || err != nil {
				t.Errorf("connection %d: %d bytes came back, %v", i, n, err)
			}
		})
	}
	all.Wait()
	var idle []net.Conn
	for range 64 {
		conn := dialPort(t, c, port)
		pingPong(t, conn)
		idle = append(idle, conn)
	}
	if n := sockets(); n < before+64 {
		t.Errorf("the agent has %d sockets with 64 connections, and %d without", n, before)
	}
	for i, conn := range idle[1:] {
		if i%2 == 0 {
			_ = conn.(halfCloser).SetLinger(0)
		}
		conn.Close()
	}
	eventually(t, "the agent's sockets to be closed", func() bool { return sockets() <= before+1 })
}

// agentSockets returns what counts the sockets that a client's agent has open.
func agentSockets(t *testing.T, c *podapi.Client) func() int {
	t.Helper()
	out, err := c.Shell(t.Context(), "echo $PPID").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("/proc", strings.TrimSpace(string(out)), "fd")
	return func() (n int) {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range list {
			if open, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(open, "socket:") {
				n++
			}
		}
		return n
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	w := newCable(t)
	c, port := w.client(t), serveEach(t, echo)
	var conns []net.Conn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for {
		conn, err := c.Dial(t.Context(), port)
		if errors.Is(err, syscall.EMFILE) {
			if !strings.Contains(err.Error(), "connections to ports are open, and no more can be") {
				t.Errorf("the error reads %q", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if conns = append(conns, conn); len(conns) > 1000 {
			t.Fatal("there is no limit")
		}
	}
	conns[0].Close()
	eventually(t, "room for another connection", func() bool {
		conn, err := c.Dial(t.Context(), port)
		if err == nil {
			conns[0] = conn
		} else if !errors.Is(err, syscall.EMFILE) {
			t.Fatal(err)
		}
		return err == nil
	})
	pingPong(t, conns[0])
}

func TestBytesOfAConnectionAreActivityAndAnIdleOneIsNot(t *testing.T) {
	c := newCable(t).client(t)
	conn := dialPort(t, c, serveEach(t, echo))
	idle := func() time.Duration {
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.Idle
	}
	pingPong(t, conn)
	eventually(t, "idleness beside an open connection", func() bool { return idle() > 300*time.Millisecond })
	begun := time.Now()
	pingPong(t, conn)
	if after := idle(); after >= time.Since(begun) {
		t.Errorf("idle for %v, and %v ago no bytes had passed", after, time.Since(begun))
	}
}
