package proc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// entry is a process under its id, from the beginning of its start.
type entry struct {
	uuid   uuid.UUID
	digest [sha256.Size]byte
	// ready is closed when process or err is set.
	ready   chan struct{}
	process *Process
	err     error
	// withdrawn says that the caller left before its turn. Nothing was started,
	// and another caller with the same id may start it.
	withdrawn bool
	// cancel ends the start, unless its turn has come. It may be called again.
	cancel context.CancelFunc
	// killed says that the process must not go on running. See [Manager.Signal].
	killed bool
}

// Start starts a process. If one with the same id and an equal spec was started before,
// Start returns that one, and started is false. The error for an id with another spec is
// [ErrConflict], for a spec that makes no sense [syscall.EINVAL], and for an id whose
// process may have been forgotten [ErrTooOld].
//
// The error for a command or a directory that can't be used is an [*fs.PathError] with
// the Op "exec" or "chdir". A failed start leaves nothing behind and may be repeated. If
// ctx ends before it is the turn of this start, Start returns its error and has started
// nothing; later ctx has no effect.
//
// Without stdin and terminal, Start waits briefly (shortWait) for the end, unless the
// process is aside.
func (m *Manager) Start(ctx context.Context, spec Spec) (p *Process, started bool, err error) {
	id, err := spec.validate()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		e, mine, err := m.claim(spec.ID, id, spec.digest(), cancel)
		if err != nil {
			return nil, false, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
		}
		if mine {
			p, err := m.startClaimed(ctx, &spec, e)
			return p, err == nil, err
		}
		if err := e.await(ctx); err != nil {
			return nil, false, err
		}
		if !e.withdrawn {
			return e.process, false, e.err
		}
	}
}

// startClaimed makes the process of an entry that the caller has claimed.
func (m *Manager) startClaimed(ctx context.Context, spec *Spec, e *entry) (*Process, error) {
	p, err := m.makeProcess(ctx, spec)
	m.publish(spec.ID, e, p, err)
	if e.err != nil {
		return nil, e.err
	}
	m.log.Debug("process started", "exec", p.id, "pid", p.pid)
	if e.killed {
		p.killUnseen()
	}
	p.run()
	return p, nil
}

// await waits until the start has succeeded, failed or been withdrawn.
func (e *entry) await(ctx context.Context) error {
	select {
	case <-e.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claim returns the entry of an id, and whether the caller made it and has to
// publish it. cancel ends the caller's start.
func (m *Manager) claim(name string, id uuid.UUID, digest [sha256.Size]byte, cancel context.CancelFunc) (e *entry, mine bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(time.Now())
	if e = m.entries[name]; e != nil {
		if e.digest != digest {
			return nil, false, ErrConflict
		}
		return e, false, nil
	}
	if m.closing {
		return nil, false, ErrShutdown
	}
	if m.graves().refuses(id, time.Now()) {
		return nil, false, ErrTooOld
	}
	e = &entry{uuid: id, digest: digest, ready: make(chan struct{}), cancel: cancel}
	m.entries[name] = e
	m.starts.Add(1)
	return e, true, nil
}

// publish ends the start of an entry, with its process or its error.
func (m *Manager) publish(name string, e *entry, p *Process, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.process, e.err = p, err
	if err != nil {
		m.abandon(name, e)
	} else if !p.aside {
		m.running++
	}
	if p != nil {
		m.proc.marks.started(p.mark)
	}
	close(e.ready)
	m.starts.Done()
}

// abandon removes an entry whose start has failed.
func (m *Manager) abandon(name string, e *entry) {
	delete(m.entries, name)
	e.withdrawn = errors.Is(e.err, context.Canceled) || errors.Is(e.err, context.DeadlineExceeded)
	if !e.killed {
		return
	}
	m.graves().bury(e.uuid, time.Now())
	if e.withdrawn {
		e.withdrawn, e.err = false, fmt.Errorf("cannot start exec %s: %w", name, ErrTooOld)
	}
}
