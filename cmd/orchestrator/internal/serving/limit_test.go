package serving_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/orchestrator/internal/serving"
)

// busyServer has a limit of connections. A request to /hold is kept, and is answered when it may be;
// one to /take takes over the connection meanwhile; one to /yield yields, and one to /door is not kept.
type busyServer struct {
	*testing.T
	address string
	held    chan struct{}        // gets each request that is held
	free    chan struct{}        // frees one
	served  atomic.Int32         // the requests that handlers got
	state   func(http.ConnState) // unless nil, it is told of each state of a connection
}

func newBusyServer(t *testing.T, limit int, secure bool, edit ...func(*busyServer)) *busyServer {
	t.Helper()
	b := &busyServer{T: t, held: make(chan struct{}), free: make(chan struct{})}
	for _, edit := range edit {
		edit(b)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(secure)
	protocols.SetUnencryptedHTTP2(!secure)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(b.serve), ConnState: func(_ net.Conn, state http.ConnState) {
		if b.state != nil {
			b.state(state)
		}
	}}
	limited := serving.Limit(server, listener, limit)
	if secure {
		cert, key := newPair(t, "x")
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
		go func() { _ = server.ServeTLS(limited, "", "") }()
	} else {
		go func() { _ = server.Serve(limited) }()
	}
	t.Cleanup(func() { server.Close() })
	b.address = listener.Addr().String()
	return b
}

func (b *busyServer) serve(w http.ResponseWriter, r *http.Request) {
	b.served.Add(1)
	switch r.URL.Path {
	case "/door":
		b.held <- struct{}{}
		<-b.free
	case "/yield":
		serving.Yield(r.Context())
		b.held <- struct{}{}
		<-b.free
	case "/hold":
		serving.Keep(r.Context())
		b.held <- struct{}{}
		<-b.free
	case "/take":
		serving.Keep(r.Context())
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		b.held <- struct{}{}
		<-b.free
	}
}

type peer struct {
	*testing.T
	net.Conn
	r *bufio.Reader
}

func (b *busyServer) peer() *peer {
	b.Helper()
	conn, err := net.Dial("tcp", b.address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hung))
	return &peer{b.T, conn, bufio.NewReader(conn)}
}

func (p *peer) send(path string) { fmt.Fprintf(p, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) }

func (p *peer) answered() {
	p.Helper()
	r, err := http.ReadResponse(p.r, nil)
	if err != nil {
		p.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r.Body)
}

func (p *peer) closed(what string) {
	p.Helper()
	if n, err := p.r.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		p.Errorf("%s is not closed: %d bytes, %v", what, n, err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// Who has a request stays; of the others the one that has waited for longest goes, whether it has
// sent a part of a request or nothing.
func TestNewcomerTakesThePlaceOfWhoWaitsForLongest(t *testing.T) {
	b := newBusyServer(t, 3, false)
	busy := b.peer()
	busy.send("/hold")
	<-b.held
	slow := b.peer()
	fmt.Fprint(slow, "GET / HTTP/1.1\r\nHost:")
	idle := b.peer()
	idle.send("/")
	idle.answered()

	taken := b.peer() // in place of slow
	taken.send("/take")
	<-b.held
	slow.closed("the slow connection")
	last := b.peer() // in place of idle
	last.send("/hold")
	<-b.held
	idle.closed("the idle connection")
	b.peer().closed("a newcomer, when all are busy,")

	for range 3 {
		b.free <- struct{}{}
	}
	busy.answered()
	last.answered()
	taken.closed("the connection that was taken over")
	next := b.peer() // there is room again
	next.send("/")
	next.answered()
	busy.send("/")
	busy.answered()
}

// A connection of HTTP/2 counts once, however many requests it has.
func TestConnectionsOfHTTP2AreBounded(t *testing.T) {
	for _, secure := range []bool{false, true} {
		b := newBusyServer(t, 1, secure)
		transport, url := &http.Transport{Protocols: &http.Protocols{}}, "http://"+b.address
		transport.Protocols.SetUnencryptedHTTP2(true)
		if secure {
			url = "https://" + b.address
			transport.Protocols.SetHTTP2(true)
			transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		}
		client := &http.Client{Transport: transport}
		answers := make(chan error, 2)
		get := func() {
			r, err := client.Get(url + "/hold")
			if err == nil {
				r.Body.Close()
			}
			answers <- err
		}
		for range 2 {
			go get()
			<-b.held
		}
		b.peer().closed("a newcomer")
		for range 2 {
			b.free <- struct{}{}
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		if secure {
			continue
		}
		next := b.peer() // in place of the one that is idle now
		next.send("/")
		next.answered()
		transport.CloseIdleConnections()
	}
}

// Who waits to be let in makes room for others, and so does who may only yield, but after all that do not.
func TestWhoIsKeptStaysLongest(t *testing.T) {
	b := newBusyServer(t, 3, false)
	hold := func(path string) *peer {
		p := b.peer()
		p.send(path)
		<-b.held
		return p
	}
	yields, known, door := hold("/yield"), hold("/hold"), hold("/door")
	next := hold("/hold")
	door.closed("one that is not let in")
	last := hold("/hold")
	yields.closed("one that yields")
	b.peer().closed("a newcomer, when all are kept,")
	for range 5 {
		b.free <- struct{}{}
	}
	for _, p := range []*peer{known, next, last} {
		p.answered()
	}
}

// A request that has come when its connection makes room for another is not served: what it does
// would have no answer.
func TestNoRequestBeginsOnAConnectionThatHasGone(t *testing.T) {
	read, ended := make(chan struct{}), make(chan struct{}, 2)
	b := newBusyServer(t, 1, false, func(b *busyServer) {
		first := true
		b.state = func(state http.ConnState) {
			switch {
			case state == http.StateActive && first: // the request is read, and no handler has it yet
				first = false
				read <- struct{}{}
				<-b.free
			case state == http.StateClosed:
				ended <- struct{}{}
			}
		}
	})
	gone := b.peer()
	gone.send("/gone")
	<-read
	next := b.peer()
	gone.closed("the connection")
	b.free <- struct{}{}
	<-ended
	if b.served.Load() != 0 {
		t.Error("its request was served")
	}
	next.send("/")
	next.answered()
}
