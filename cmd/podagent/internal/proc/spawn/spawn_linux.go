// Package spawn starts a process as [syscall.ForkExec] does, with a session of its own and
// with resource limits, which it sets between fork and exec. The process limits itself. So
// it takes no program in between, no tracing, and no right to limit others.
//
// The package is for Linux on amd64 and arm64.
package spawn

import (
	"errors"
	"runtime"
	"sync/atomic"
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
	// On runs the fork on the thread that the process inherits from, and returns when it has.
	// nil stands for any thread.
	On func(fork func())
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

// Start starts a program. It returns when the process has executed the program. The error is
// a [syscall.Errno], a *[LimitError], or [ErrHeld].
func Start(file string, argv []string, attr *Attr) (Process, error) {
	c, err := prepare(file, argv, attr)
	if err != nil {
		return Process{}, err
	}
	result, ended := c.start(attr.On)
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
// parent, which goes on meanwhile. So it has a stack of its own, can allocate nothing, and
// says here what failed.
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

	// mask are the signals that the child blocks in the end, as its parent does.
	mask uint64
	// pid is the child's, 0 before there is one. shares is 1 until it shares no memory.
	pid, shares int32
	pidfd       int32
	errno       syscall.Errno
	// limit is the index of the limit that is being set, and len(limits) before and
	// afterwards.
	limit     int
	unlimited bool

	stack [stackSize]byte // the last field, in which the collector looks for nothing
}

// stackSize is more than the functions need that may not grow their stack.
const stackSize = 4 << 10

func prepare(file string, argv []string, attr *Attr) (*child, error) {
	c := &child{terminal: attr.Terminal, pidfd: -1, shares: 1, files: append([]int(nil), attr.Files...)}
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

// clone starts a child that shares the memory, and calls entry on that stack. It returns the
// child's pid, or an error below 0.
func clone(flags, stack uintptr, pidfd, tid *int32, c *child, entry uintptr) (result uintptr)

// entry is where [execChild] begins. What assembly calls by name is a wrapper, which the race
// detector sees.
var entry = func() uintptr {
	f := execChild
	return **(**uintptr)(unsafe.Pointer(&f))
}()

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname enterSyscall runtime.entersyscall
func enterSyscall()

//go:linkname exitSyscall runtime.exitsyscall
func exitSyscall()

// start returns the pid of the child when it shares no memory any more, or an error below 0,
// and whether it has ended a child that did not get to its exec.
//
// The thread that forks does not wait for the exec, so that it can start others meanwhile.
// The kernel tells when the child lets go of the memory, as for a thread that ends.
func (c *child) start(on func(func())) (result int, ended bool) {
	if on == nil {
		on = func(fork func()) { fork() }
	}
	w := c.watch()
	on(func() { result = c.fork(unix.CLONE_PIDFD|unix.CLONE_CHILD_CLEARTID, &c.shares) })
	if result == -int(unix.EINVAL) { // gVisor has no pidfds, nor does it tell of an exec
		on(func() { result = c.fork(unix.CLONE_VFORK|unix.CLONE_CHILD_SETTID, &c.pid) })
	} else if result > 0 {
		atomic.StoreInt32(&c.pid, int32(result))
		c.awaitExec()
	}
	return result, w.stop()
}

// fork returns the pid of the child, or an error below 0. It holds the lock that others hold
// while they create descriptors which a child must not have.
func (c *child) fork(flags uintptr, tid *int32) int {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	return c.waitingFork(flags|unix.CLONE_VM|uintptr(unix.SIGCHLD), tid)
}

// awaitExec returns when the child shares no memory any more: it has executed its program,
// or ended.
func (c *child) awaitExec() {
	const futexWait = 0
	for atomic.LoadInt32(&c.shares) != 0 {
		_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&c.shares)), futexWait, 1, 0, 0, 0)
	}
}

// waitingFork is a system call that the runtime knows of: where the fork waits for the exec,
// the runtime gives the thread's processor to others, and collects garbage meanwhile.
//
//go:noinline
//go:norace
func (c *child) waitingFork(flags uintptr, tid *int32) int {
	enterSyscall() // until exitSyscall no stack may grow
	result := c.cloneBlocked(flags, tid)
	exitSyscall()
	return result
}

// cloneBlocked clones while the thread takes no signals, so that the child runs no handler
// of its parent's.
//
//go:noinline
//go:norace
//go:nosplit
func (c *child) cloneBlocked(flags uintptr, tid *int32) int {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&c.mask)), unsafe.Sizeof(c.mask), 0, 0)
	beforeFork()
	result := clone(flags, c.top(), &c.pidfd, tid, c, entry)
	afterFork()
	return int(result)
}

// top is where the child's stack begins, downwards. Processors want it aligned.
//
//go:nosplit
func (c *child) top() uintptr { return (uintptr(unsafe.Pointer(&c.stack)) + stackSize) &^ 15 }

// execChild is what the child does. It calls only functions that the stack need not grow for, that
// the race detector does not see, and that use nothing of the parent's thread.
//
//go:norace
//go:nosplit
func execChild(c *child) {
	var errno syscall.Errno
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto failed
	}
	c.resetSignals()
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

// resetSignals gives all signals that the parent handles their defaults, and takes those
// that the parent takes.
//
//go:norace
//go:nosplit
func (c *child) resetSignals() {
	const ignored = 1 // SIG_IGN
	for sig := uintptr(1); sig <= 64; sig++ {
		var byDefault, before sigaction
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&byDefault)), uintptr(unsafe.Pointer(&before)), unsafe.Sizeof(c.mask), 0, 0)
		if before.handler == ignored {
			syscall.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&before)), 0, unsafe.Sizeof(c.mask), 0, 0)
		}
	}
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, unsafe.Sizeof(c.mask), 0, 0)
}

// sigaction is the kernel's struct sigaction, on amd64 and arm64.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}
