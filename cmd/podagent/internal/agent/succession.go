package agent

import (
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// succession is a gRPC server that can be replaced: its connections then end, without the
// loss of a call. The one that takes over accepts the next connection; the one before asks
// its clients to connect again, and ends with its last call.
//
// A server can ask only all of its clients at once, although just those whose key no longer
// counts must go. After handoverGrace, expel ends the calls that these have left, and no
// others.
type succession struct {
	make   func() *grpc.Server
	expel  func()
	failed chan<- error

	mu        sync.Mutex
	listeners []*sharedListener
	servers   []*grpc.Server // the last accepts connections
	stopped   bool
}

func newSuccession(make func() *grpc.Server, expel func(), failed chan<- error) *succession {
	return &succession{make: make, expel: expel, failed: failed}
}

// listen adds a listener for all servers to come.
func (s *succession) listen(l net.Listener) {
	shared := &sharedListener{base: l, arrivals: make(chan arrival), closed: make(chan struct{})}
	go shared.accept()
	s.listeners = append(s.listeners, shared)
}

// renew makes a new server take over.
func (s *succession) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	server := s.make()
	for _, shared := range s.listeners {
		l := &turn{sharedListener: shared, over: make(chan struct{})}
		go func() {
			if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
				s.failed <- err
			}
		}()
	}
	for _, before := range s.servers {
		go s.retire(before)
	}
	s.servers = append(s.servers, server)
}

// retire ends a server after its calls.
func (s *succession) retire(server *grpc.Server) {
	late := time.AfterFunc(handoverGrace, s.expel)
	defer late.Stop()
	server.GracefulStop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.servers {
		if other == server {
			s.servers = append(s.servers[:i:i], s.servers[i+1:]...)
			return
		}
	}
}

// end takes no more connections, and returns the servers that still have some.
func (s *succession) end() []*grpc.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, shared := range s.listeners {
		shared.close()
	}
	return s.servers
}

// gracefulStop returns when all calls have ended.
func (s *succession) gracefulStop() {
	each(s.end(), (*grpc.Server).GracefulStop)
}

// stop ends all calls.
func (s *succession) stop() {
	each(s.end(), (*grpc.Server).Stop)
}

// each calls a method of all servers at once: one may take long.
func each(servers []*grpc.Server, do func(*grpc.Server)) {
	var all sync.WaitGroup
	for _, server := range servers {
		all.Go(func() { do(server) })
	}
	all.Wait()
}

// sharedListener is a listener whose connections go to the server whose turn it is.
type sharedListener struct {
	base     net.Listener
	arrivals chan arrival
	once     sync.Once
	closed   chan struct{}
}

type arrival struct {
	conn net.Conn
	err  error
}

func (s *sharedListener) accept() {
	for {
		conn, err := s.base.Accept()
		select {
		case s.arrivals <- arrival{conn, err}:
		case <-s.closed:
			if err == nil {
				conn.Close()
			}
			return
		}
	}
}

func (s *sharedListener) close() {
	s.once.Do(func() {
		close(s.closed)
		s.base.Close()
	})
}

// turn is a shared listener as one server sees it. A server closes it when its turn is over.
type turn struct {
	*sharedListener
	once sync.Once
	over chan struct{}
}

func (t *turn) Accept() (net.Conn, error) {
	select {
	case <-t.over: // even if a connection has arrived, too
		return nil, net.ErrClosed
	default:
	}
	select {
	case a := <-t.arrivals:
		return a.conn, a.err
	case <-t.over:
	case <-t.closed:
	}
	return nil, net.ErrClosed
}

func (t *turn) Close() error {
	t.once.Do(func() { close(t.over) })
	return nil
}

func (t *turn) Addr() net.Addr { return t.base.Addr() }
