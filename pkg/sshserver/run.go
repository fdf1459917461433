package sshserver

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/podagent/podagent/pkg/podapi"
)

// run is what a session has started, from its start to its end. The session's requests reach it
// while it starts, too.
type run struct {
	session *session
	gone    context.Context // ends when the client has left
	left    context.CancelFunc
	done    chan struct{} // closed when the run has ended
	signals chan syscall.Signal
	unread  atomic.Bool // nobody reads the standard output any more

	mu      sync.Mutex
	size    *podapi.TerminalSize // the last one that the client sent
	process *podapi.Process      // nil until it has started
}

func newRun(s *session) *run {
	gone, left := context.WithCancel(context.Background())
	return &run{session: s, gone: gone, left: left, done: make(chan struct{}), signals: make(chan syscall.Signal, waitingSignals)}
}

// do runs start, and then says that the run is done. It is called once.
func (r *run) do(ctx context.Context, start func(context.Context)) {
	defer close(r.done)
	start(ctx)
}

// leave says that the client has left, and waits for the end.
func (r *run) leave() {
	r.left()
	<-r.done
}

// signal has the process get a signal. It reports whether that can be.
func (r *run) signal(s syscall.Signal) bool {
	select {
	case r.signals <- s:
		return true
	default:
		return false
	}
}

func (r *run) resize(size podapi.TerminalSize) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.size = &size
	if r.process != nil {
		_ = r.process.Resize(size) // it fails only if it has no terminal
	}
}

// started notes the process. From now on it gets what the client has sent meanwhile.
func (r *run) started(p *podapi.Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = p
	if r.size != nil {
		_ = p.Resize(*r.size)
	}
	go func() {
		for {
			select {
			case s := <-r.signals:
				_ = p.Signal(s) // a client is not told
			case <-r.done:
				return
			}
		}
	}()
}
