package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

func newProxy(t *testing.T) *Proxy {
	t.Helper()
	p, err := Listen(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// connect opens a connection as a program in the sandbox does.
func connect(t *testing.T, p *Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", p.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hung))
	return conn.(*net.TCPConn)
}

// expect waits for news.
func expect(t *testing.T, f *FarEnd, want News) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if got, err := f.Next(ctx); got != want {
		t.Fatalf("the news is %+v, %v, want %+v", got, err, want)
	}
}

func TestConnectionWithoutAnyFarEndIsRefusedAtOnceInItsOwnProtocol(t *testing.T) {
	p := newProxy(t)
	for what, test := range map[string]struct{ say, want string }{
		"CONNECT":         {"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n", errNone},
		"an absolute URL": {"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", errNone},
		"SOCKS5":          {"\x05\x01\x00\x05\x01\x00\x03\x0bexample.com\x01\xbb", "\x05\x01\x00\x01"},
	} {
		conn := connect(t, p)
		if _, err := io.WriteString(conn, test.say); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		answer, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(answer), test.want) {
			t.Errorf("%s is answered by %q, %v", what, answer, err)
		}
	}
}

func TestConnectionWaitsForAFarEndThatWasThereBefore(t *testing.T) {
	p := newProxy(t)
	first := p.Join(0)
	expect(t, first, News{Serving: true})
	first.Leave()
	conn := connect(t, p)
	second := p.Join(0)
	expect(t, second, News{Serving: true})
	expect(t, second, News{Connection: 1})
	carried, done, err := p.Carry(1)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	defer carried.Close()
	if _, err := io.WriteString(carried, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("the program got %q, %v", got, err)
	}
	if _, _, err := p.Carry(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a connection is carried twice: %v", err)
	}
}

func TestConnectionThatNobodyCarriesIsRefusedWithTheReason(t *testing.T) {
	p := newProxy(t)
	p.patience = time.Millisecond
	p.Join(0).Leave()
	conn := connect(t, p)
	_, _ = io.WriteString(conn, "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), errGone) || err != nil {
		t.Errorf("the answer is %s %q, %v", answer.Status, body, err)
	}
	if _, _, err := p.Carry(1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused connection is carried: %v", err)
	}
}

func TestHighestGenerationServesAndOthersStandBy(t *testing.T) {
	p := newProxy(t)
	old := p.Join(1)
	expect(t, old, News{Serving: true})
	peer := p.Join(1)
	expect(t, peer, News{Standby: 1})
	connect(t, p)
	expect(t, old, News{Connection: 1})
	newer := p.Join(2)
	expect(t, newer, News{Serving: true})
	expect(t, newer, News{Connection: 1}) // nobody carries it yet
	expect(t, old, News{Standby: 2})
	newer.Leave()
	expect(t, old, News{Serving: true})
	expect(t, old, News{Connection: 1})
	old.Leave()
	expect(t, peer, News{Serving: true})
}

func TestConnectionsAreBounded(t *testing.T) {
	p := newProxy(t)
	farEnd := p.Join(0)
	expect(t, farEnd, News{Serving: true})
	for range maxConnections {
		connect(t, p)
	}
	for id := range uint64(maxConnections) {
		expect(t, farEnd, News{Connection: id + 1})
	}
	one := connect(t, p)
	_, _ = io.WriteString(one, "GET http://example.com/ HTTP/1.1\r\n\r\n")
	_ = one.CloseWrite()
	if answer, err := io.ReadAll(one); err != nil || !strings.Contains(string(answer), errMany) {
		t.Errorf("one connection too many is answered by %q, %v", answer, err)
	}
	carried, done, err := p.Carry(1)
	if err != nil {
		t.Fatal(err)
	}
	carried.Close()
	done()
	connect(t, p)
	expect(t, farEnd, News{Connection: maxConnections + 1})
}
