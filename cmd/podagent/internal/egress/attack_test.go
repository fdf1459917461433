package egress

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestEachFirstByteIsAnsweredInOneOfTheProtocols(t *testing.T) {
	p := newProxy(t)
	for first := range 256 {
		conn := connect(t, p)
		if _, err := conn.Write([]byte{byte(first)}); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		want := "HTTP/1.1 503 "
		if first == socks5 {
			want = "\x05\x00\x05\x01"
		}
		if answer, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(answer), want) {
			t.Errorf("%#x is answered by %q, %v", first, answer, err)
		}
	}
	awaitPlaces(t, p)
}

// What is refused holds a place for a short time, whatever it does.
func TestRefusedConnectionsGiveTheirPlacesBack(t *testing.T) {
	for what, do := range map[string]func(*net.TCPConn){
		"says nothing":        func(*net.TCPConn) {},
		"ends at once":        func(c *net.TCPConn) { c.Close() },
		"ends its half":       func(c *net.TCPConn) { _ = c.CloseWrite() },
		"resets":              func(c *net.TCPConn) { reset(c) },
		"says one byte":       func(c *net.TCPConn) { _, _ = c.Write([]byte("G")) },
		"says it, and resets": func(c *net.TCPConn) { _, _ = c.Write([]byte("G")); reset(c) },
		"sends without end":   func(c *net.TCPConn) { go sendAll(c) },
	} {
		t.Run(what, func(t *testing.T) {
			p := newProxy(t)
			hurry(p)
			for range maxConnections {
				do(connect(t, p))
			}
			awaitPlaces(t, p)
		})
	}
}

// Reading what has no end would cost the agent processor time for nothing.
func TestRefusedConnectionIsReadToABoundOnly(t *testing.T) {
	p := newProxy(t)
	conn := connect(t, p)
	const buffers = 32 << 20 // more than the kernel holds on the way
	if sent := sendAll(conn); sent > mostWords+buffers {
		t.Errorf("%d bytes were read", sent)
	}
}

// What comes in excess gets an answer, unless it is a flood, too.
func TestFloodOfExcessIsReset(t *testing.T) {
	p := newProxy(t)
	p.mu.Lock()
	p.lastWords = hung // none of the excess leaves while more comes
	p.mu.Unlock()
	p.Join(0)
	for range maxConnections + maxExcess {
		connect(t, p)
	}
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(hung))
		_, err = conn.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it ends with %v, want a reset", err)
	}
}

// A flood while the far end is away costs places, for the time of patience, and nothing else.
func TestFloodWhileTheFarEndIsAwayEnds(t *testing.T) {
	p := newProxy(t)
	hurry(p)
	p.Join(0).Leave()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				conn, err := net.Dial("tcp", p.listener.Addr().String())
				if err == nil {
					conn.Close()
				} else if !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	awaitPlaces(t, p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) != 0 {
		t.Errorf("%d connections still wait", len(p.waiting))
	}
}

// A far end that comes and goes gets each connection that waits, and those alone.
func TestFarEndGetsTheConnectionsOfAFloodOnce(t *testing.T) {
	p := newProxy(t)
	farEnd := p.Join(0)
	expect(t, farEnd, News{Serving: true})
	const flood = 100
	for range flood {
		connect(t, p)
	}
	var announced []uint64
	for range flood {
		news, err := farEnd.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		announced = append(announced, news.Connection)
	}
	slices.Sort(announced)
	if distinct := slices.Compact(announced); len(distinct) != flood || distinct[0] != 1 {
		t.Errorf("%d connections were announced as %v", flood, distinct)
	}
	var carried []uint64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 4 { // who asks first gets it
		all.Go(func() {
			for id := range uint64(flood) {
				conn, done, err := p.Carry(id + 1)
				if err != nil {
					continue
				}
				conn.Close()
				done()
				mu.Lock()
				carried = append(carried, id+1)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(carried)
	if !slices.Equal(carried, announced) {
		t.Errorf("carried: %v", carried)
	}
	awaitPlaces(t, p)
}

// hurry makes the proxy's times short.
func hurry(p *Proxy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.patience, p.lastWords = 50*time.Millisecond, 50*time.Millisecond
}

// awaitPlaces waits until no connection holds a place.
func awaitPlaces(t *testing.T, p *Proxy) {
	t.Helper()
	for deadline := time.Now().Add(hung); ; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		open := p.open
		p.mu.Unlock()
		if open == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections hold places", open)
		}
	}
}

// sendAll sends until the connection ends, and returns how many bytes that were.
func sendAll(c *net.TCPConn) (sent int) {
	for data := bytes.Repeat([]byte("G"), 4<<10); ; {
		n, err := c.Write(data)
		if sent += n; err != nil {
			return sent
		}
	}
}
