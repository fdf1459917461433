package proc

import (
	"context"
	"syscall"
	"time"
)

// Signal sends sig to the process with this id, as [Process.Signal] does. It waits
// for a process that is being started, until ctx ends. If there is none the error
// wraps [fs.ErrNotExist].
//
// SIGKILL is also for a process that does not run yet. A start under way ends before
// its turn, or its process is killed as soon as it is there, even if ctx has ended by
// then. A start that comes later is refused with [ErrTooOld]. So whoever has given up a
// start can make sure that nothing of it is left, however late the start arrives.
func (m *Manager) Signal(ctx context.Context, id string, sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		m.preventStart(id)
	}
	p, err := m.Get(ctx, id)
	if err != nil {
		return err
	}
	return p.Signal(sig)
}

// preventStart marks a start under way as killed, and refuses one that comes later.
// The mark takes as little room as that of a forgotten process, and goes with those.
func (m *Manager) preventStart(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.sweep(now)
	e := m.entries[name]
	switch {
	case e == nil:
		if id, err := parseID(name); err == nil {
			m.graves().bury(id, now)
		}
	case e.process == nil:
		e.killed = true
		e.cancel()
	}
}

// killUnseen kills a process that was killed before it was there. Nobody waits for it.
func (p *Process) killUnseen() {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		p.log.Error("cannot kill a process after its start", "exec", p.id, "error", err)
	}
}
