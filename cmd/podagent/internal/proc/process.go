package proc

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/cgroup"
)

// Process is a process that was started, running or ended. Its methods may be
// called concurrently, also after the [Manager] has forgotten it.
type Process struct {
	id  string
	pid int
	// mark is the number that its processes bear, 0 if they bear none.
	mark    int
	argv    []string
	script  string
	started time.Time
	timeout time.Duration
	aside   bool

	lim   *limits
	log   *slog.Logger
	ended func(*Process)
	child *child
	proc  *processTable
	in    *input
	out   *outputs
	// terminal is nil if the process has none.
	terminal *terminal
	// screen follows what the terminal shows, guarded by the lock of out. It is
	// nil without a terminal.
	screen *screen
	cgroup *cgroup.Groups
	// before counts the events of the cgroup before the start.
	before cgroup.Events

	// waiters limits how many callers wait in a system call for the process that they
	// started. It is nil if the caller does not wait.
	waiters chan struct{}

	// gone is closed when the process has ended. done, which is out.Done(), is closed
	// when its output is complete, too.
	gone chan struct{}
	done <-chan struct{}
	// result is valid once done is closed.
	result outcome
	// told says that a reader got the result.
	told atomic.Bool

	mu     sync.Mutex
	exited time.Time
	// cause is why the agent ended the process, 0 if it did not.
	cause Reason
	// killed says that the agent sent SIGKILL.
	killed bool
	timer  *time.Timer
	// Callers that rely on the pid hold pins. The process is reaped only when nobody
	// holds one, and nobody gets one once exited is set.
	pins   sync.WaitGroup
	pinned int // the number of pins

	// commandWeight is how many bytes the command of the ended process holds. The
	// Manager guards it.
	commandWeight int
}

// outcome is how a process ended, or why that is not known.
type outcome struct {
	status Status
	err    error
}

// ID returns the exec id.
func (p *Process) ID() string { return p.id }

// PID returns the process's number. After the end another process may have it.
func (p *Process) PID() int { return p.pid }

// Wait waits until the process has ended and its output is complete. It takes no
// output: a process with a full journal waits for a reader, as [Process.Attach]
// says. The error is that of ctx, or says why the status is not known.
func (p *Process) Wait(ctx context.Context) (Status, error) {
	select {
	case <-p.done:
		return p.result.status, p.result.err
	default:
	}
	select {
	case <-p.done:
		return p.result.status, p.result.err
	case <-ctx.Done():
		return Status{}, ctx.Err()
	}
}

// info describes the process for a list.
func (p *Process) info() Info {
	i := Info{ID: p.id, PID: p.pid, Argv: p.argv, Script: p.script, Started: p.started}
	if p.Ended() {
		i.Status = new(p.result.status)
	}
	i.Terminal = p.Terminal()
	out := p.out.State()
	i.Stdout, i.StdoutKept = out.Written[0], out.Kept[0]
	i.Stderr, i.StderrKept = out.Written[1], out.Kept[1]
	return i
}

// pin keeps the process from being reaped until unpin. It fails if the process
// has ended.
func (p *Process) pin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.exited.IsZero() {
		return false
	}
	p.pins.Add(1)
	p.pinned++
	return true
}

func (p *Process) isPinned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pinned > 0
}

// running reports whether the process has not ended.
func (p *Process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited.IsZero()
}

// condemn notes why the agent is about to end the process, unless there is a
// reason already. It fails if the process has ended.
func (p *Process) condemn(cause Reason) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.exited.IsZero() {
		return false
	}
	if p.cause == 0 {
		p.cause = cause
	}
	return true
}

// noteKill notes that the agent sends SIGKILL to the process.
func (p *Process) noteKill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
}

func (p *Process) unpin() {
	p.mu.Lock()
	p.pinned--
	p.mu.Unlock()
	p.pins.Done()
}
