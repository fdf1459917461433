package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// Most commands are short and print little, and then what they do costs less than
// to hand it on: a goroutine for each output and one for the end, for each of which
// a thread is woken. So who starts a process waits for it a moment himself, in one
// system call for all three. Its start, its output and its end then also leave the
// sandbox together, in place of several messages that each occupy all who pass
// them on while the command needs the processor.

// waitersFor returns [Process.waiters] for a start. One with input or a terminal goes on
// until its caller has sent something, and one aside nobody waits for.
func (m *Manager) waitersFor(spec *Spec) chan struct{} {
	if spec.Stdin || spec.Terminal != nil || spec.Aside {
		return nil
	}
	return m.waiters
}

// waitShort takes what a process prints, and reports whether it ended in time, can be
// reaped, and all of its output is in the journal. Else [Process.run] goes on from
// there: with one that runs longer, prints more than the head of a journal, leaves
// its output to a descendant, or has a tracer that has not seen its end yet.
func (p *Process) waitShort(until time.Time) bool {
	if p.child.pidfd < 0 {
		return false
	}
	select {
	case p.waiters <- struct{}{}:
		defer func() { <-p.waiters }()
	default:
		return false // enough threads wait
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

// moveUntilEnd waits for files, which are the pidfd and the outputs.
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

// awaitResult waits for the result, until then.
func (p *Process) awaitResult(until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// moveOutputs takes what the outputs have. It reports whether one of them is still
// open, and whether there was room for all.
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
		case file.Revents != 0: // empty, and all who could write have closed it
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
