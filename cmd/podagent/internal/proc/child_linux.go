package proc

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is a started process that has not been reaped. Until reap its pid
// stays its own, so that signals by pid and group reach no other.
type child struct {
	proc *os.Process
	// exit is a pidfd, which becomes readable when the process ends; nil where
	// the kernel has none.
	exit *os.File
}

func startChild(c *command, dir string, env []string, std *stdio) (*child, error) {
	pidfd := -1
	attr := &os.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: std.child[:],
		// A session of its own and not just a group: an interactive bash in a
		// group without a terminal stops itself.
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	}
	if c.script != nil {
		attr.Files = append(attr.Files, c.script)
	}
	proc, err := startRetry(c, attr)
	if err != nil {
		return nil, err
	}
	return &child{proc: proc, exit: pollable(pidfd)}, nil
}

func startRetry(c *command, attr *os.ProcAttr) (*os.Process, error) {
	for try := 0; ; try++ {
		proc, err := os.StartProcess(c.file, c.argv, attr)
		if try == busyRetries || !errors.Is(err, syscall.ETXTBSY) {
			return proc, err
		}
		time.Sleep(busyPause << try)
	}
}

// pollable hands a pidfd to the runtime's poller, which then waits for the end
// without a thread.
func pollable(pidfd int) *os.File {
	if pidfd < 0 {
		return nil
	}
	// An error leaves a file that can't be waited for; awaitExit copes.
	unix.SetNonblock(pidfd, true)
	return os.NewFile(uintptr(pidfd), "pidfd")
}

// awaitExit returns when the process has ended. It does not reap it.
func (c *child) awaitExit() {
	if c.exit != nil {
		defer c.exit.Close()
		if raw, err := c.exit.SyscallConn(); err == nil {
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
		err := unix.Waitid(unix.P_PID, c.proc.Pid, &info, unix.WEXITED|unix.WNOWAIT|flags, nil)
		if !errors.Is(err, unix.EINTR) {
			return err != nil || info.Signo != 0
		}
	}
}

// reap gives the process's number back to the kernel. It fails when someone
// else took the status.
func (c *child) reap() (*os.ProcessState, error) { return c.proc.Wait() }

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
