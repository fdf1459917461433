package proc

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// rlimitResources are the resources by the names of setrlimit(2).
var rlimitResources = map[string]int{
	"as":         unix.RLIMIT_AS,
	"core":       unix.RLIMIT_CORE,
	"cpu":        unix.RLIMIT_CPU,
	"data":       unix.RLIMIT_DATA,
	"fsize":      unix.RLIMIT_FSIZE,
	"locks":      unix.RLIMIT_LOCKS,
	"memlock":    unix.RLIMIT_MEMLOCK,
	"msgqueue":   unix.RLIMIT_MSGQUEUE,
	"nice":       unix.RLIMIT_NICE,
	"nofile":     unix.RLIMIT_NOFILE,
	"nproc":      unix.RLIMIT_NPROC,
	"rss":        unix.RLIMIT_RSS,
	"rtprio":     unix.RLIMIT_RTPRIO,
	"rttime":     unix.RLIMIT_RTTIME,
	"sigpending": unix.RLIMIT_SIGPENDING,
	"stack":      unix.RLIMIT_STACK,
}

// rlimitFault says what is wrong with limits, or nothing.
func rlimitFault(limits []Rlimit) string {
	seen := map[string]bool{}
	for _, l := range limits {
		_, known := rlimitResources[l.Resource]
		switch {
		case l.Resource == "locks" || l.Resource == "rttime":
			return fmt.Sprintf("the limit of %s cannot be set: it marks what belongs to a process", l.Resource)
		case !known:
			return fmt.Sprintf("there is no resource limit %q", l.Resource)
		case l.Soft > l.Hard:
			return fmt.Sprintf("the soft limit of %s is above its hard limit", l.Resource)
		case seen[l.Resource]:
			return fmt.Sprintf("the limit of %s is given twice", l.Resource)
		}
		seen[l.Resource] = true
	}
	return ""
}

// limitStopped gives a process that was started with Ptrace its limits and a mark, and
// lets it go. It returns the number that the process bears. The kernel stopped it when its
// exec succeeded, before its first instruction. A tracer is a thread: the one that forked
// the process lets it go. It does no more, because the confined thread may not limit others.
//
// Setting limits in the child, before the exec, would take a program in between: the
// agent's own, with a Go runtime under limits made for another program.
func (m *Manager) limitStopped(pid int, limits []Rlimit, number int) (mark int, err error) {
	if ended, err := awaitStop(pid); ended || err != nil {
		return number, err
	}
	if err := m.proc.marks.set(pid, number); err != nil {
		m.log.Error("cannot mark a process: what leaves its parents may escape", "pid", pid, "error", err)
		number = 0
	}
	for _, l := range limits {
		value := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
		if err := unix.Prlimit(pid, rlimitResources[l.Resource], &value, nil); err != nil {
			return 0, fmt.Errorf("cannot limit %s to %d (hard %d): %w", l.Resource, l.Soft, l.Hard, err)
		}
	}
	m.proc.thread.Do(func() { err = syscall.PtraceDetach(pid) })
	return number, err
}

// awaitStop waits until a traced process has stopped, and reports whether it
// was killed instead. It does not reap the process.
func awaitStop(pid int) (ended bool, err error) {
	for {
		// As waitid returns it: signo, errno, code, then the rest.
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return info.Code != cldTrapped, err
		}
	}
}

// cldTrapped is CLD_TRAPPED of sigaction(2): a traced child has stopped.
const cldTrapped = 4
