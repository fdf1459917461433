package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// session is the session of one client of a Handler.
type session struct {
	server *mcp.Server
	end    func()
	// cancel ends the running calls: the SDK waits for them when it closes a
	// session.
	cancel context.CancelFunc
}

// close ends the session and its calls.
func (s *session) close() {
	s.cancel()
	for client := range s.server.Sessions() {
		client.Close()
	}
}

// sessions are the sessions of a Handler.
type sessions struct {
	make  func() (*mcp.Server, func(), error)
	slots chan struct{} // holds one element per session

	mu     sync.Mutex
	closed bool
	all    map[*session]bool
	ids    map[string]*session
	ended  sync.WaitGroup // counts all
}

func newSessions(open func() (*mcp.Server, func(), error), max int) *sessions {
	return &sessions{make: open, slots: make(chan struct{}, max), all: map[*session]bool{}, ids: map[string]*session{}}
}

var errClosed = errors.New("the server is shutting down")

// open makes a session. The caller must call watch for it.
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

// add reserves a place for a new session. If there is none, it waits a little:
// some clients first use a session of its own to ask for the protocol's version,
// and that session is about to end.
func (l *sessions) add(ctx context.Context, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("all %d sessions are in use: end one, or wait until an idle one ends", cap(l.slots))
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

// learning records a session's id before the client gets it.
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

// watch must be called after the first request of a session was served. It waits
// in the background for the session's end, or removes the session at once if that
// request did not begin it.
func (l *sessions) watch(s *session) {
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	begun := slices.Collect(s.server.Sessions())
	if len(begun) == 0 {
		l.finish(s)
		return
	}
	go func() {
		if closed { // shutdown came before this session began, and missed it
			s.close()
		}
		_ = begun[0].Wait() // nobody needs the reason of the end
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
