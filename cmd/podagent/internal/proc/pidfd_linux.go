package proc

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// runs reports whether the process that was seen still runs.
func (t *processTable) runs(m member) bool {
	now, err := t.member(m.pid)
	return err == nil && now.start == m.start && now.alive()
}

// signal sends sig to the process that was seen, and never to a later one with the same
// pid. A process that is gone is no error.
func (t *processTable) signal(m member, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return t.signalByPid(m, sig)
	}
	defer unix.Close(fd)
	if now, err := t.member(m.pid); err != nil || now.start != m.start {
		return ignoreGone(err)
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return ignoreGone(unix.Kill(m.pid, sig))
	}
	return nil
}

// signalByPid serves kernels without pidfds, and an agent without a descriptor
// left. Another process could get the pid between the look and the signal.
func (t *processTable) signalByPid(m member, sig unix.Signal) error {
	if now, err := t.member(m.pid); err != nil || now.start != m.start {
		return ignoreGone(err)
	}
	return ignoreGone(unix.Kill(m.pid, sig))
}

// awaitEnd waits until the process has ended, at most until the deadline.
func (t *processTable) awaitEnd(m member, deadline time.Time) {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		t.pollEnd(m, deadline)
		return
	}
	defer unix.Close(fd)
	if !t.runs(m) {
		return
	}
	for left := time.Until(deadline); left > 0; left = time.Until(deadline) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// pollEnd waits without a pidfd.
func (t *processTable) pollEnd(m member, deadline time.Time) {
	for t.runs(m) && time.Now().Before(deadline) {
		time.Sleep(killWait / 10)
	}
}

// ignoreGone drops the errors for a process that is gone: ENOENT from looking it up in
// /proc, ESRCH from reading or signalling it.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
