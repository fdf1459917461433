package fsops

import (
	"context"
	"sync"
)

// pathLocks hands out one lock per path. The zero value is ready; a path that
// nobody holds or waits for takes no memory.
type pathLocks struct {
	mu   sync.Mutex
	held map[string]*pathLock
}

type pathLock struct {
	// token holds one element while the lock is taken. It is a channel, because waiting
	// for a mutex cannot be cancelled.
	token chan struct{}
	// users is how many hold the lock or wait for it.
	users int
}

// lock waits until it holds the lock of path, or ctx ends. The caller calls
// unlock once.
func (l *pathLocks) lock(ctx context.Context, path string) (unlock func(), err error) {
	p := l.enter(path)
	select {
	case p.token <- struct{}{}:
		return func() { <-p.token; l.leave(path, p) }, nil
	case <-ctx.Done():
		l.leave(path, p)
		return nil, ctx.Err()
	}
}

func (l *pathLocks) enter(path string) *pathLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[string]*pathLock)
	}
	p := l.held[path]
	if p == nil {
		p = &pathLock{token: make(chan struct{}, 1)}
		l.held[path] = p
	}
	p.users++
	return p
}

func (l *pathLocks) leave(path string, p *pathLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(l.held, path)
	}
}
