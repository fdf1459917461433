package proc

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Signal sends sig to the process's group, then to the descendants that left
// it. SIGKILL ends the whole tree before Signal returns: it stops and kills
// until two scans of /proc in a row find no descendant. An unknown signal is
// [syscall.EINVAL]; after the process's end it is [os.ErrProcessDone]. Any
// other error says that the signal may not have reached all of them, because
// /proc could not be read or the agent may not signal one; the group got it
// all the same where that was possible.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig <= 0 || sig > maxSignal {
		return fmt.Errorf("cannot send signal %d to exec %s: %w", int(sig), p.id, syscall.EINVAL)
	}
	if !p.pin() {
		return fmt.Errorf("cannot signal exec %s: %w", p.id, os.ErrProcessDone)
	}
	defer p.unpin()
	send := p.tree().signal
	if sig == syscall.SIGKILL {
		send = func(syscall.Signal) error { return p.tree().kill() }
	}
	if err := send(sig); err != nil {
		return fmt.Errorf("cannot send signal %d to exec %s: %w", int(sig), p.id, err)
	}
	return nil
}

// tree is the process with its descendants. The caller holds a pin.
func (p *Process) tree() *tree {
	t := newTree(p.proc, p.log)
	t.leaders[p.pid], t.ids[p.id] = true, true
	return t
}

// expire ends the tree at the timeout.
func (p *Process) expire() {
	if !p.pin() {
		return
	}
	defer p.unpin()
	p.mu.Lock()
	p.timedOut = p.exited.IsZero()
	over := !p.timedOut
	p.mu.Unlock()
	if over {
		return
	}
	t := p.tree()
	if err := t.signal(syscall.SIGTERM); err != nil {
		p.log.Warn("cannot signal a process", "exec", p.id, "error", err)
	}
	grace := time.NewTimer(p.lim.killGrace)
	defer grace.Stop()
	select {
	case <-p.gone:
	case <-grace.C:
	}
	// The timeout is the whole tree's, also when the process itself obeyed.
	if err := t.kill(); err != nil {
		p.log.Error("cannot end all of a process's tree", "exec", p.id, "error", err)
	}
}
