package proc

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
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

// forkChild forks a process with its files, and registers it as the manager's own. Its
// error is a [syscall.Errno], or says which limit could not be set.
//
// It does without [os.StartProcess]: the handle of the process costs system calls, and
// the pid is enough here.
func (m *Manager) forkChild(c *command, spec *Spec, std *stdio) (*child, error) {
	pidfd := -1
	attr := &syscall.ProcAttr{
		Dir:   spec.Dir,
		Env:   spec.environ(),
		Files: std.files(c.script),
		// A session of its own and not just a group: an interactive bash in a
		// group without a terminal stops itself.
		Sys: &syscall.SysProcAttr{
			Setsid: true, Setctty: std.terminal != nil,
			PidFD: &pidfd,
		},
	}
	number := m.nextNumber()
	m.proc.forking.RLock()
	defer m.proc.forking.RUnlock()
	pid, mark, err := m.forkLimited(c, attr, spec, number)
	if mark == 0 {
		m.proc.marks.started(number)
	}
	if err != nil {
		return nil, err
	}
	m.reaper.register(pid)
	return &child{pid: pid, reaper: m.reaper, mark: mark, pidfd: pidfd}, nil
}

// forkLimited forks a process with its mark and its resource limits. It returns the number
// that the process bears, 0 for none.
func (m *Manager) forkLimited(c *command, attr *syscall.ProcAttr, spec *Spec, number int) (pid, mark int, err error) {
	if len(spec.Rlimits) == 0 && (number == 0 || m.mayChangeUser(spec.program(c))) {
		pid, err = m.forkExec(c, attr)
		return pid, 0, err
	}
	attr.Sys.Ptrace = true
	if m.proc.thread == nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	pid, err = m.forkExec(c, attr)
	if err != nil {
		return 0, 0, err
	}
	marked, err := m.limitStopped(pid, spec.Rlimits, number)
	if err != nil {
		unix.Kill(pid, unix.SIGKILL)
		reapPid(pid, 0)
		unix.Close(*attr.Sys.PidFD)
		return 0, 0, err
	}
	return pid, marked, nil
}

// mayChangeUser reports whether a program would run as another user, or with more
// capabilities, if nobody traced it.
func (m *Manager) mayChangeUser(file string) bool {
	return !m.proc.thread.Has(confine.NoNewPrivs) && changesUser(file)
}

// forkExec is [syscall.ForkExec] on the confined thread, repeated while another fork holds
// the program open.
func (m *Manager) forkExec(c *command, attr *syscall.ProcAttr) (pid int, err error) {
	for try := 0; ; try++ {
		m.proc.thread.Do(func() { pid, err = syscall.ForkExec(c.file, c.argv, attr) })
		if try == busyRetries || !errors.Is(err, syscall.ETXTBSY) {
			return pid, err
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
