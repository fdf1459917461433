// Package spawn starts a process as [syscall.ForkExec] does, with a session of its own and
// with resource limits, which it sets between fork and exec. The process limits itself. So
// it takes no program in between, no tracing, and no right to limit others.
//
// The package is for Linux on amd64 and arm64.
package spawn

import (
	"errors"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn/firstlimit"
)

// Attr says how to start a process.
type Attr struct {
	Dir string
	Env []string
	// Files are the process's descriptors, from 0 on; -1 stands for none.
	Files []int
	// Terminal makes the first of Files its controlling terminal.
	Terminal bool
	// Limits are set right before the exec. All others are the caller's, but that of open
	// files is the one that the caller was started with.
	Limits []Limit
}

// Limit is a resource limit.
type Limit struct {
	Resource int // such as [unix.RLIMIT_CORE]
	unix.Rlimit
	// Optional says that the process may start without the limit, if the kernel refuses it.
	Optional bool
}

// Process is a started process.
type Process struct {
	Pid   int
	PidFD int // -1 where the kernel has none
	// Unlimited says that the kernel has refused an optional limit.
	Unlimited bool
}

// LimitError says which limit the kernel refused.
type LimitError struct {
	Limit Limit
	Errno syscall.Errno
}

func (e *LimitError) Error() string { return e.Errno.Error() }
func (e *LimitError) Unwrap() error { return e.Errno }

// Start starts a program. The error is a [syscall.Errno], a *[LimitError], or [ErrHeld].
func Start(file string, argv []string, attr *Attr) (Process, error) {
	c, err := prepare(file, argv, attr)
	if err != nil {
		return Process{}, err
	}
	result, ended := c.forkExec(unix.CLONE_PIDFD)
	if result == -int(unix.EINVAL) { // gVisor has no pidfds
		result, ended = c.forkExec(0)
	}
	runtime.KeepAlive(c)
	if errno := -result; errno > 0 {
		return Process{}, syscall.Errno(errno)
	}
	if c.errno == 0 && !ended {
		return Process{result, int(c.pidfd), c.unlimited}, nil
	}
	if c.pidfd >= 0 {
		unix.Close(int(c.pidfd))
	}
	reap(result)
	switch {
	case ended:
		return Process{}, ErrHeld
	case c.limit < len(c.limits):
		return Process{}, &LimitError{c.limits[c.limit], c.errno}
	}
	return Process{}, c.errno
}

// reap reaps a child that is about to exit.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// child is what a process needs between fork and exec. The process shares the memory of its
// parent, which waits meanwhile. So it can allocate nothing, but says here what failed.
type child struct {
	file, dir *byte
	argv, env []*byte
	files     []int
	terminal  bool
	limits    []Limit
	// openFiles is the limit that the caller was started with.
	openFiles unix.Rlimit
	// spare is above all descriptors in files.
	spare int

	// pid is the child's, which the kernel writes before the child does anything.
	pid   int32
	pidfd int32
	errno syscall.Errno
	// limit is the index of the limit that is being set, and len(limits) before and
	// afterwards.
	limit     int
	unlimited bool
}

func prepare(file string, argv []string, attr *Attr) (*child, error) {
	c := &child{terminal: attr.Terminal, pidfd: -1, files: append([]int(nil), attr.Files...)}
	c.spare = len(c.files)
	for _, fd := range c.files {
		c.spare = max(c.spare, fd+1)
	}
	c.limits, c.limit = attr.Limits, len(attr.Limits)
	c.openFiles = unix.Rlimit{Cur: firstlimit.Files.Soft, Max: firstlimit.Files.Hard}
	var err error
	for _, text := range []struct {
		to   **byte
		from string
	}{{&c.file, file}, {&c.dir, attr.Dir}} {
		if *text.to, err = syscall.BytePtrFromString(text.from); err != nil {
			return nil, err
		}
	}
	if c.argv, err = syscall.SlicePtrFromStrings(argv); err != nil {
		return nil, err
	}
	c.env, err = syscall.SlicePtrFromStrings(attr.Env)
	return c, err
}

// vfork starts a child that shares the memory, and waits until it executes a program or
// exits. It returns the child's pid, 0 in the child, or an error below 0.
func vfork(flags uintptr, pidfd, pid *int32) (result uintptr)

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

//go:linkname enterSyscall runtime.entersyscall
func enterSyscall()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// forkExec returns the pid of the child, or an error below 0, and whether it has ended a
// child that did not get to its exec.
func (c *child) forkExec(flags uintptr) (result int, ended bool) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	w := c.watch()
	result = c.waitingVfork(flags | unix.CLONE_CHILD_SETTID | unix.CLONE_VM | unix.CLONE_VFORK | uintptr(unix.SIGCHLD))
	return result, w.stop()
}

// waitingVfork is vfork as a system call that the runtime knows of. What is between fork and
// exec can be stopped by other processes of the user, and waits for its file system. The
// runtime does not wait for it: it gives the thread's processor to others, and collects
// garbage meanwhile.
//
//go:noinline
//go:norace
func (c *child) waitingVfork(flags uintptr) int {
	enterSyscall() // until exitSyscall no stack may grow
	result := c.vfork(flags)
	afterFork()
	exitSyscall()
	return result
}

// vfork is a function of its own so that nothing of its frame is used after the child has
// been there. As in package syscall, it calls only functions from beforeFork on that the
// stack need not grow for, and that the race detector does not see.
//
//go:noinline
//go:norace
//go:nosplit
func (c *child) vfork(flags uintptr) int {
	beforeFork()
	if result := vfork(flags, &c.pidfd, &c.pid); result != 0 {
		return int(result)
	}
	var errno syscall.Errno
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	afterForkInChild() // default handlers, and the signal mask of before
	if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
		goto failed
	}
	// First move the descriptors that others would overwrite.
	for i, fd := range c.files {
		if fd >= 0 && fd < i {
			if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(fd), uintptr(c.spare), unix.O_CLOEXEC); errno != 0 {
				goto failed
			}
			c.files[i] = c.spare
			c.spare++
		}
	}
	for i, fd := range c.files {
		switch {
		case fd < 0:
			syscall.RawSyscall(unix.SYS_CLOSE, uintptr(i), 0, 0)
			continue
		case fd == i:
			_, _, errno = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0)
		default:
			_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(fd), uintptr(i), 0)
		}
		if errno != 0 {
			goto failed
		}
	}
	if c.terminal {
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	// This fails if the hard limit has been lowered since, which does no harm.
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&c.openFiles)), 0, 0, 0)
	for c.limit = 0; c.limit < len(c.limits); c.limit++ {
		l := &c.limits[c.limit]
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(&l.Rlimit)), 0, 0, 0); errno == 0 {
			continue
		}
		if !l.Optional {
			goto failed
		}
		c.unlimited = true
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.file)), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
failed:
	c.errno = errno
	for {
		syscall.RawSyscall(unix.SYS_EXIT, 253, 0, 0)
	}
}
