package proc

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// launch starts the process of a spec. Nothing watches it until run.
func (m *Manager) launch(spec *Spec) (*Process, error) {
	cmd, err := spec.command()
	if err != nil {
		return nil, err
	}
	defer cmd.close()
	std, err := openStdio(spec.Stdin)
	if err != nil {
		return nil, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
	}
	out, err := newOutput(&m.lim, m.buffers, m.budget, std)
	if err != nil {
		std.close()
		return nil, fmt.Errorf("cannot start exec %s: %w", spec.ID, err)
	}
	begun := time.Now()
	c, err := startChild(cmd, spec.Dir, spec.environ(), std)
	if err != nil {
		std.close()
		return nil, spec.startError(cmd.argv[0], err)
	}
	std.closeChild()
	return &Process{
		id: spec.ID, pid: c.proc.Pid, argv: append([]string(nil), spec.Argv...), script: spec.Script,
		started: begun, timeout: spec.Timeout,
		lim: &m.lim, log: m.log, ended: m.processEnded,
		child: c, proc: m.proc, in: newInput(std.stdin), out: out,
		gone: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// run begins to move the output and to wait for the end.
func (p *Process) run() {
	for _, s := range p.out.streams {
		go s.pump()
	}
	if p.timeout > 0 {
		p.mu.Lock()
		p.timer = time.AfterFunc(p.timeout, p.expire)
		p.mu.Unlock()
	}
	go p.supervise()
}

// supervise sees the process to its end.
func (p *Process) supervise() {
	p.child.awaitExit()
	exited := p.noteExit()
	for _, s := range p.out.streams {
		s.processEnded(exited)
	}
	p.in.close()
	p.pins.Wait()
	state, err := p.child.reap()
	for _, s := range p.out.streams {
		<-s.complete
	}
	p.conclude(state, err)
}

// noteExit makes the end known: from here on the process takes no signals.
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
func (p *Process) conclude(state *os.ProcessState, err error) {
	p.result.status = p.status(state)
	if err != nil {
		// Someone else reaped the process. That is no success and no failure
		// of the command either.
		p.result.err = fmt.Errorf("cannot learn how exec %s ended: %w", p.id, err)
		p.log.Error("cannot learn how a process ended", "exec", p.id, "pid", p.pid, "error", err)
	}
	p.ended(p)
	close(p.done)
	p.out.finish(&p.result)
	p.log.Debug("process ended", "exec", p.id, "pid", p.pid,
		"reason", int(p.result.status.Reason), "code", p.result.status.Code)
}

func (p *Process) status(state *os.ProcessState) Status {
	st := Status{Wall: p.exited.Sub(p.started)}
	st.Stdout, st.Stderr, st.OutputOpen = p.out.sizes()
	if state == nil {
		return st
	}
	st.Reason, st.Code = Exited, state.ExitCode()
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		st.Reason, st.Signal = Signalled, int(ws.Signal())
		st.Code = 128 + st.Signal
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timedOut {
		st.Reason = TimedOut
	}
	st.User, st.System = state.UserTime(), state.SystemTime()
	if ru, ok := state.SysUsage().(*syscall.Rusage); ok {
		st.MaxRSS = ru.Maxrss << 10 // the kernel counts in KiB
	}
	return st
}
