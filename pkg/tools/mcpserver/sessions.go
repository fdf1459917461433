package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is what one client of a Handler has.
type session struct {
	server *mcp.Server
	end    func()
	// cancel ends the calls that are under way: the SDK waits for them when it
	// closes a session.
	cancel context.CancelFunc
}

// close ends the session's calls, and it.
func (s *session) close() {
	s.cancel()
	for client := range s.server.Sessions() {
		client.Close()
	}
}

// sessions are those of a Handler.
type sessions struct {
	make  func() (*mcp.Server, func(), error)
	slots chan struct{} // has as many as there are sessions

	mu     sync.Mutex
	closed bool
	all    map[*session]bool
	ids    map[string]*session
	ended  sync.WaitGroup // one for each of all
}

func newSessions(open func() (*mcp.Server, func(), error), max int) *sessions {
	return &sessions{make: open, slots: make(chan struct{}, max), all: map[*session]bool{}, ids: map[string]*session{}}
}

var errClosed = errors.New("the server ends")

// open makes a session. It is settled by the caller.
func (l *sessions) open(ctx context.Context) (*session, error) {
	s := &session{}
	if err := l.add(ctx, s); err != nil {
		return nil, err
	}
	server, end, err := l.make()
	if err != nil {
		l.remove(s)
		return nil, err
	}
	calls, cancel := context.WithCancel(context.Background())
	server.AddReceivingMiddleware(endingWith(calls), l.learning(s))
	l.mu.Lock()
	defer l.mu.Unlock()
	s.server, s.end, s.cancel = server, end, cancel
	return s, nil
}

// add counts a session that is about to be made. When there is no room it waits
// a little: the first question of some clients, which protocol there is, is a
// session of its own that ends just then.
func (l *sessions) add(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("there are %d sessions, and may not be more: end one, or wait until one that is not used ends", cap(l.slots))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		<-l.slots
		return errClosed
	}
	l.all[s] = true
	l.ended.Add(1)
	return nil
}

func (l *sessions) remove(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, s)
	for id, other := range l.ids {
		if other == s {
			delete(l.ids, id)
		}
	}
	<-l.slots
	l.ended.Done()
}

// learning learns a session's id before the client does.
func (l *sessions) learning(s *session) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if method == "initialize" {
				l.mu.Lock()
				l.ids[r.GetSession().ID()] = s
				l.mu.Unlock()
			}
			return next(ctx, method, r)
		}
	}
}

// cancel ends the calls of a session that is about to be closed.
func (l *sessions) cancel(id string) {
	l.mu.Lock()
	s := l.ids[id]
	l.mu.Unlock()
	if s != nil {
		s.cancel()
	}
}

// settle is called when the first request of a session was served: it has begun
// then, or never will.
func (l *sessions) settle(s *session) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	begun := slices.Collect(s.server.Sessions())
	if len(begun) == 0 {
		l.finish(s)
		return
	}
	go func() {
		if closed { // before this session had begun
			s.close()
		}
		_ = begun[0].Wait() // a session has no outcome
		l.finish(s)
	}()
}

func (l *sessions) finish(s *session) {
	s.cancel()
	s.end()
	l.remove(s)
}

func (l *sessions) shutdown(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	var made []*session
	for s := range l.all {
		if s.server != nil {
			made = append(made, s)
		}
	}
	l.mu.Unlock()
	for _, s := range made {
		go s.close()
	}
	done := make(chan struct{})
	go func() {
		l.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
