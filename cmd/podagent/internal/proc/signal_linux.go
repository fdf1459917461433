package proc

import (
	"fmt"
	"os"
	"syscall"
	"time"
)

// Signal sends sig to the process's group, then to the descendants that left
// it. SIGKILL ends the whole tree before Signal returns: it stops and kills
// until two scans of /proc in a row find no descendant. SIGHUP, which says that who listens is
// gone, does not reach descendants that have none of the process's standard streams: servers
// in the background that were to stay. After the process's end
// it still ends the descendants that outlived it, while other signals do nothing. The
// error for an unknown signal is [syscall.EINVAL]; if there is nothing to signal, it is
// [os.ErrProcessDone]. Any other error says that the signal may not have reached all of
// them, because /proc could not be read or the agent may not signal one. Even then the
// group gets the signal if possible.
func (p *Process) Signal(sig syscall.Signal) error {
	if sig <= 0 || sig > maxSignal {
		return fmt.Errorf("cannot send signal %d to exec %s: %w", int(sig), p.id, syscall.EINVAL)
	}
	if err := p.signal(sig); err != nil {
		return fmt.Errorf("cannot send signal %d to exec %s: %w", int(sig), p.id, err)
	}
	return nil
}

func (p *Process) signal(sig syscall.Signal) error {
	if !p.pin() {
		return p.signalLeft(sig)
	}
	defer p.unpin()
	if sig == syscall.SIGKILL {
		p.noteKill()
		return p.tree().kill()
	}
	if sig == syscall.SIGHUP {
		return p.tree().hangUp(p.pid)
	}
	return p.tree().signal(sig)
}

// signalLeft ends the descendants that outlived the process. The first process of a fork
// bomb, for example, is soon gone.
func (p *Process) signalLeft(sig syscall.Signal) error {
	t := newTree(p.proc, p.log)
	t.add(p)
	if sig != syscall.SIGKILL {
		return os.ErrProcessDone
	}
	if left, err := t.members(func(member) {}); len(left) == 0 && err == nil {
		return os.ErrProcessDone
	}
	return t.kill()
}

// tree is the process with its descendants. The caller holds a pin.
func (p *Process) tree() *tree {
	t := newTree(p.proc, p.log)
	t.leaders[p.pid] = true
	t.add(p)
	return t
}

// expire ends the tree at the timeout.
func (p *Process) expire() {
	if !p.pin() {
		return
	}
	defer p.unpin()
	if !p.condemn(TimedOut) {
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
	// The timeout is for the whole tree, even if the process itself obeyed.
	if err := t.kill(); err != nil {
		p.log.Error("cannot end all of a process's tree", "exec", p.id, "error", err)
	}
}
