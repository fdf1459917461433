package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Most commands are short and print little. A goroutine for each output and one for the
// end, each of which wakes a thread, then cost more than the command itself. So the
// caller of Start waits briefly, in one system call for all three. The start, the output
// and the end of a command then also leave the sandbox in one message. With several,
// each would keep the agent and the connection busy while the command needs the
// processor.

// waitersFor returns [Process.waiters] for a start. It is nil for a process with input or
// a terminal, which runs until its caller has sent something, and for one aside, which
// nobody waits for.
func (m *Manager) waitersFor(spec *Spec) chan struct{} {
	if spec.Stdin || spec.Terminal != nil || spec.Aside {
		return nil
	}
	return m.waiters
}

// waitShort moves the output of a process into the journal. It reports whether the process
// ended in time, can be reaped, and has all of its output there. Otherwise [Process.run]
// takes over: the process runs longer, prints more than the head of a journal, leaves its
// output to a descendant, or has a tracer that has not seen its end yet.
func (p *Process) waitShort(until time.Time) bool {
	if p.child.pidfd < 0 {
		return false
	}
	select {
	case p.waiters <- struct{}{}:
		defer func() { <-p.waiters }()
	default:
		return false // enough threads are waiting
	}
	files := []unix.PollFd{{Fd: int32(p.child.pidfd), Events: unix.POLLIN}}
	for _, pump := range p.out.pumps {
		files = append(files, unix.PollFd{Fd: int32(pump.source.fd), Events: unix.POLLIN})
	}
	ended := p.moveUntilEnd(files, until) && p.child.exited(unix.WNOHANG)
	if ended {
		unix.Close(p.child.pidfd)
	}
	return ended
}

// moveUntilEnd moves the outputs until the process ends. files are the pidfd and the
// outputs.
func (p *Process) moveUntilEnd(files []unix.PollFd, until time.Time) bool {
	for left := time.Until(until); left > 0; left = time.Until(until) {
		timeout := unix.NsecToTimespec(left.Nanoseconds())
		n, err := unix.Ppoll(files, &timeout, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 {
			return false
		}
		open, room := p.moveOutputs(files[1:])
		switch ended := files[0].Revents != 0; {
		case !room:
			return false
		case ended:
			return !open
		}
	}
	return false
}

// awaitResult waits for the result, but not longer than until.
func (p *Process) awaitResult(until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// moveOutputs moves the bytes that wait in the outputs. It reports whether an output is
// still open, and whether the journals had room for all.
func (p *Process) moveOutputs(files []unix.PollFd) (open, room bool) {
	for i, pump := range p.out.pumps {
		file := &files[i]
		if file.Fd < 0 {
			continue
		}
		more := true
		switch {
		case file.Revents&unix.POLLIN != 0:
			more, room = pump.readAvailable()
			if !room {
				return true, false
			}
		case file.Revents != 0: // empty, and closed by all writers
			more = false
		}
		if !more {
			file.Fd = -1
			pump.source.close()
			pump.finish(false)
		}
		open = open || more
	}
	return open, true
}
