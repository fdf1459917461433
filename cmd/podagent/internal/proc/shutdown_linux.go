package proc

import (
	"context"
	"syscall"
)

// Shutdown refuses new starts ([ErrShutdown]) and ends all processes with
// their descendants, also those that outlived their process: SIGTERM, SIGKILL
// after killGrace or when ctx ends, whichever is first. A manager that is alone
// also ends orphans of unknown origin, and as PID 1 everything else in its name
// space. It spares processes that came there from outside, but ends their children.
// It returns when all have ended and their output is complete; after the end of ctx
// it waits for that no longer than killGrace.
func (m *Manager) Shutdown(ctx context.Context) {
	running := m.close(ctx)
	t, unpin := m.allTrees(running)
	if m.alone {
		t.addAll()
	}
	if err := t.signal(syscall.SIGTERM); err != nil {
		m.log.Warn("cannot signal all processes", "error", err)
	}
	grace, cancel := context.WithTimeout(ctx, m.lim.killGrace)
	t.awaitEnd(grace)
	cancel()
	for _, p := range running {
		p.noteKill()
	}
	if err := t.kill(); err != nil {
		m.log.Error("cannot end all processes", "error", err)
	}
	unpin()
	m.awaitDone(ctx, running)
	m.guard.close()
	m.cgroup.Close()
	m.meters.Close()
	m.proc.Close()
}

// close refuses new starts and those that wait for their turn, and returns all
// processes. It waits for those that are being started, but no longer than killGrace: a
// start that hangs nearly always does so before its turn, and is refused when it goes on,
// and the other processes need the remaining time.
func (m *Manager) close(ctx context.Context) []*Process {
	m.mu.Lock()
	if !m.closing {
		m.closing = true
		close(m.closed)
	}
	if m.kept.timer != nil {
		m.kept.timer.Stop()
		m.kept.timer = nil
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.lim.killGrace)
	defer cancel()
	over := make(chan struct{})
	go func() {
		m.starts.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
		m.log.Error("cannot wait any longer for processes that are being started")
	}
	return m.all()
}

// allTrees is the trees of all processes. It pins those that still run. The descendants
// of the others are known by their marks only.
func (m *Manager) allTrees(all []*Process) (t *tree, unpin func()) {
	t = newTree(m.proc, m.log)
	var pinned []*Process
	for _, p := range all {
		t.add(p)
		if p.pin() {
			t.leaders[p.pid] = true
			pinned = append(pinned, p)
		}
	}
	return t, func() {
		for _, p := range pinned {
			p.unpin()
		}
	}
}

// awaitDone waits until the output of all processes is complete.
func (m *Manager) awaitDone(ctx context.Context, all []*Process) {
	done := func(p *Process) <-chan struct{} { return p.done }
	if awaitAll(ctx, all, done) {
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.lim.killGrace)
	defer cancel()
	if !awaitAll(last, all, done) {
		m.log.Error("cannot wait any longer for all processes to end")
	}
}

func awaitAll(ctx context.Context, all []*Process, event func(*Process) <-chan struct{}) bool {
	for _, p := range all {
		select {
		case <-event(p):
		case <-ctx.Done():
			return false
		}
	}
	return true
}
