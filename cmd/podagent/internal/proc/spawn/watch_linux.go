package spawn

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld says that a child did not get to its exec, and was ended: another process kept it
// stopped, or the program's file did not open in time.
var ErrHeld = errors.New("something in the sandbox kept it from starting")

// watch looks after a child until its exec. A child that another process stops before its
// exec would hold its start for ever. Nothing can keep it from being stopped: it has the same
// user. So it is ended.
type watch struct {
	pid   int
	begun time.Time
	timer *time.Timer

	mu sync.Mutex
	// over says that the child is beyond its exec, ended that it has been ended before.
	over, ended bool
}

func watchChild(pid int) *watch {
	w := &watch{pid: pid, begun: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(firstLook, w.look)
	return w
}

// look ends the child if it is stopped, or late.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case isStopped(w.pid) || time.Since(w.begun) > longestStart:
		w.ended = unix.Kill(w.pid, unix.SIGKILL) == nil
	default:
		w.timer.Reset(firstLook)
	}
}

// isStopped reports whether a child is stopped. It leaves that for others to see.
func isStopped(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}

// stop ends the watch. From then on the child gets no signal. It reports whether the child
// was ended.
func (w *watch) stop() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.timer.Stop()
	return w.ended
}
