package checkout

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/podagent/podagent/cmd/podagent/internal/admission"
)

// Relays take the requests of all checkouts' gits at one port, so that a boundary around commands
// can let them connect there. The zero Relays are ready for use, and for one agent.
type Relays struct {
	open atomic.Int32 // connections

	mu       sync.Mutex
	listener net.Listener
	byToken  map[string]*relay
}

// Listen opens the port on 127.0.0.1, unless it is open, and returns its address. It stays open
// until Close.
func (s *Relays) Listen() (*net.TCPAddr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s.listener = l
		server := &http.Server{
			Handler: s, ConnState: s.count, ErrorLog: log.New(io.Discard, "", 0),
			ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxRelayHeader,
		}
		go server.Serve(admission.Patient(l))
	}
	return s.listener.Addr().(*net.TCPAddr), nil
}

// Close closes the port.
func (s *Relays) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// count closes the connections that are too many: anybody in the sandbox can connect.
func (s *Relays) count(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.open.Add(1) > maxRelayed {
			conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// serve has a relay get the requests with its token, until stop.
func (s *Relays) serve(y *relay) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byToken == nil {
		s.byToken = map[string]*relay{}
	}
	s.byToken[y.token] = y
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.byToken, y.token)
	}
}

// ServeHTTP passes a request to the relay whose token it has. The request ends with the checkout.
func (s *Relays) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	y := s.byToken[r.Header.Get(tokenHeader)]
	s.mu.Unlock()
	if y == nil {
		http.Error(w, "this is not for you", http.StatusForbidden)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(y.ctx, cancel)()
	y.ServeHTTP(w, r.WithContext(ctx))
}
