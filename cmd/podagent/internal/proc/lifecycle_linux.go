package proc

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// awaitTurn waits until fewer than forksAtOnce processes are being started. The
// caller's start counts from then on, until endTurn.
func (m *Manager) awaitTurn(ctx context.Context) error {
	select {
	case m.forks <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.closed:
		return ErrShutdown
	}
	err := m.isOver(ctx) // select picks at random among what is ready
	if err != nil {
		m.endTurn()
	}
	return err
}

// isOver returns why a start must not go on, or nil.
func (m *Manager) isOver(ctx context.Context) error {
	select {
	case <-m.closed:
		return ErrShutdown
	default:
		return ctx.Err()
	}
}

func (m *Manager) endTurn() { <-m.forks }

// makeProcess forks the process of a spec, with its files and limits. Nothing watches
// the process until run.
func (m *Manager) makeProcess(ctx context.Context, spec *Spec) (*Process, error) {
	cmd, err := spec.command()
	if err != nil {
		return nil, err
	}
	m.touch(spec, cmd) // before the turn, as it may take long
	if err := m.awaitTurn(ctx); err != nil {
		return nil, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
	}
	defer m.endTurn()
	defer cmd.close()
	if err := cmd.open(); err != nil {
		return nil, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
	}
	std, err := openStdio(spec)
	if err != nil {
		return nil, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
	}
	begun, before := time.Now(), m.cgroup.Events()
	c, err := m.forkChild(cmd, spec, std)
	if err != nil {
		std.close()
		return nil, m.startError(spec, cmd.argv[0], err)
	}
	std.closeChild()
	m.expose(c)
	var screen *screen
	if std.terminal != nil {
		screen = newScreen()
	}
	out := newOutputs(m.budget, &m.lim, std, screen)
	return &Process{
		id: spec.ID, pid: c.pid, mark: c.mark, argv: append([]string(nil), spec.Argv...), script: spec.Script,
		started: begun, timeout: spec.Timeout, aside: spec.Aside,
		lim: &m.lim, log: m.log, ended: m.processEnded,
		child: c, proc: m.proc, in: newInput(std), terminal: std.terminal, screen: screen,
		out: out, done: out.Done(),
		cgroup: m.cgroup, before: before,
		waiters: m.waitersFor(spec), gone: make(chan struct{}),
	}, nil
}

// startError is [Spec.startError]. It also counts a start that the limit of processes
// prevented.
func (m *Manager) startError(spec *Spec, name string, err error) error {
	err = spec.startError(name, err)
	if errors.Is(err, syscall.EAGAIN) {
		m.cgroup.CountRefused()
	}
	return err
}

// run begins to move the output and to wait for the end.
func (p *Process) run() {
	if p.timeout > 0 {
		p.mu.Lock()
		p.timer = time.AfterFunc(p.timeout, p.expire)
		p.mu.Unlock()
	}
	until := time.Now().Add(p.lim.shortWait)
	if p.waiters != nil && p.waitShort(until) {
		p.noteEnd()
		if !p.isPinned() {
			p.reap()
			return
		}
		go p.reap() // a signal under way may take a second
		p.awaitResult(until)
		return
	}
	for _, pump := range p.out.pumps {
		if !pump.isComplete() {
			pump.watch()
			go pump.run()
		}
	}
	go func() {
		p.child.awaitExit()
		p.noteEnd()
		p.reap()
	}()
	if p.waiters != nil && p.running() {
		p.awaitResult(until)
	}
}

// noteEnd tells the outputs, the input and the terminal that the process has ended.
func (p *Process) noteEnd() {
	exited := p.noteExit()
	for _, pump := range p.out.pumps {
		pump.processEnded(exited)
	}
	p.in.closeForGood()
	if p.terminal != nil {
		p.terminal.release()
	}
}

// reap reaps a process that has ended, waits until its output is complete, and hands out
// the result.
func (p *Process) reap() {
	p.pins.Wait()
	e, err := p.child.reap()
	for _, pump := range p.out.pumps {
		<-pump.complete
	}
	p.conclude(e, err)
}

// noteExit notes when the process ended. From here on it takes no signals.
func (p *Process) noteExit() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exited = time.Now()
	if p.timer != nil {
		p.timer.Stop()
	}
	close(p.gone)
	return p.exited
}

// conclude hands out the result.
func (p *Process) conclude(e *exit, err error) {
	p.result.status = p.status(e)
	if err != nil {
		// Someone else reaped the process. That is no success and no failure
		// of the command either.
		p.result.err = fmt.Errorf("cannot learn how exec %s ended: %w", p.id, err)
		p.log.Error("cannot learn how a process ended", "exec", p.id, "pid", p.pid, "error", err)
	}
	p.ended(p)
	p.out.Finish()
	p.log.Debug("process ended", "exec", p.id, "pid", p.pid,
		"reason", int(p.result.status.Reason), "code", p.result.status.Code)
}

func (p *Process) status(e *exit) Status {
	st := Status{Wall: p.exited.Sub(p.started)}
	st.Stdout, st.Stderr, st.OutputOpen = p.out.sizes()
	if e == nil {
		return st
	}
	st.Reason, st.Code = Exited, e.status.ExitStatus()
	if e.status.Signaled() {
		st.Reason, st.Signal = Signalled, int(e.status.Signal())
		st.Code = 128 + st.Signal
	}
	st.User, st.System = time.Duration(e.usage.Utime.Nano()), time.Duration(e.usage.Stime.Nano())
	st.MaxRSS = e.usage.Maxrss << 10 // the kernel counts in KiB
	p.explain(&st)
	return st
}

// explain adds what the exit status alone does not say.
func (p *Process) explain(st *Status) {
	st.ProcessLimit = p.cgroup.ProcessLimit() > p.before.ProcessLimit
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cause != 0:
		st.Reason = p.cause
	case !p.killed && st.Code == 128+int(syscall.SIGKILL) && p.cgroup.OOMKills() > p.before.OOMKills:
		st.Reason = OutOfMemory
	}
}
