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
// SIGKILL also works before the process runs. A start under way ends before its turn, or
// its process is killed as soon as it exists, even if ctx has ended by then. A start
// that comes later is refused with [ErrTooOld]. So a caller that has given up a start can
// make sure that nothing of it is left, however late the start arrives.
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

// preventStart marks a start under way as killed, and refuses one that comes later by a
// tombstone, as for a forgotten process.
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

// killUnseen kills a process whose kill was requested before it existed. Nobody waits
// for it.
func (p *Process) killUnseen() {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		p.log.Error("cannot kill a process after its start", "exec", p.id, "error", err)
	}
}
