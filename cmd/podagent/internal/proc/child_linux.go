package proc

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn"
)

// child is a started process that has not been reaped. Until reap its pid
// stays its own, so that signals by pid and group reach no other.
type child struct {
	pid    int
	reaper *reaper
	// mark is the number that it bears, 0 if it bears none.
	mark int
	// pidfd becomes readable when the process ends. It is -1 on kernels without pidfds.
	pidfd int
}

// forkChild forks a process with its files, limits and mark, and registers it as the
// manager's own. Its error is a [syscall.Errno], or says which limit could not be set.
func (m *Manager) forkChild(c *command, spec *Spec, std *stdio) (*child, error) {
	number := m.nextNumber()
	attr := &spawn.Attr{
		Dir:      spec.Dir,
		Env:      spec.environ(),
		Files:    std.files(c.script),
		Terminal: std.terminal != nil,
		On:       m.proc.thread.Go,
		Limits:   slices.Concat(m.proc.marks.forNumber(number), m.processLimit, m.proc.marks.leave(spec.limits())),
	}
	m.proc.forking.RLock()
	defer m.proc.forking.RUnlock()
	p, err := m.forkExec(c, attr)
	if err != nil {
		m.proc.marks.started(number)
		return nil, limitError(err)
	}
	if p.Unlimited {
		m.log.Error("cannot mark a process: what leaves its parents may escape", "pid", p.Pid)
		m.proc.marks.started(number)
		number = 0
	}
	m.reaper.register(p.Pid)
	return &child{pid: p.Pid, reaper: m.reaper, mark: number, pidfd: p.PidFD}, nil
}

// forkExec starts a process on the confined thread. It tries again while another fork
// holds the program open.
func (m *Manager) forkExec(c *command, attr *spawn.Attr) (p spawn.Process, err error) {
	for try := 0; ; try++ {
		p, err = spawn.Start(c.file, c.argv, attr)
		if try == busyRetries || !errors.Is(err, syscall.ETXTBSY) {
			return p, err
		}
		m.lim.busyPause(busyPause << try)
	}
}

// pollable hands a pidfd to the runtime's poller, which then waits for the end
// without a thread.
func pollable(pidfd int) *os.File {
	if pidfd < 0 {
		return nil
	}
	// After an error the poller cannot wait for the file; awaitExit copes.
	unix.SetNonblock(pidfd, true)
	return os.NewFile(uintptr(pidfd), "pidfd")
}

// awaitExit returns when the process has ended. It does not reap it.
func (c *child) awaitExit() {
	if exit := pollable(c.pidfd); exit != nil {
		defer exit.Close()
		if raw, err := exit.SyscallConn(); err == nil {
			err = raw.Read(func(uintptr) bool { return c.exited(unix.WNOHANG) })
			if err == nil {
				return
			}
		}
	}
	c.exited(0)
}

func (c *child) exited(flags int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}

// exit is how a process ended.
type exit struct {
	status syscall.WaitStatus
	usage  syscall.Rusage
}

// reap gives the number of a process that has ended back to the kernel. It
// fails when someone else took the status.
func (c *child) reap() (*exit, error) { return c.reaper.reapOwn(c.pid) }

// reapPid takes the status of a child that has ended. Without WNOHANG it waits
// for that.
func reapPid(pid, flags int) (*exit, error) {
	var e exit
	for {
		got, err := syscall.Wait4(pid, &e.status, flags, &e.usage)
		if got == pid {
			return &e, nil
		}
		if err == nil {
			err = syscall.EBUSY // it runs
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, os.NewSyscallError("wait4", err)
		}
	}
}

// closeOnExec marks every descriptor that the agent inherited, so that no
// process gets it.
func closeOnExec() {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
