// Package spawn starts a process as [syscall.ForkExec] does, with a session of its own and
// with resource limits, which it sets between fork and exec. The process limits itself. So
// it takes no program in between, no tracing, and no right to limit others.
//
// The package is for Linux on amd64 and arm64.
package spawn

import (
	"errors"
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
	// On has the fork run on the thread that the process inherits from, and need not wait for
	// that. nil stands for any thread.
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

// Start starts a program. It returns when the exec is over and the program runs. The error is a
// [syscall.Errno], a *[LimitError], or [ErrHeld].
func Start(file string, argv []string, attr *Attr) (Process, error) {
	c, err := prepare(file, argv, attr)
	if err != nil {
		return Process{}, err
	}
	result, ended := c.start(attr.On)
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
	// files are the child's descriptors, and, after them, the end of the pipe which its exec
	// closes.
	files    []int
	terminal bool
	limits   []Limit
	// openFiles is the limit that the caller was started with.
	openFiles unix.Rlimit
	// spare is above all descriptors in files.
	spare int

	// mask are the signals that the child blocks in the end, as its parent does.
	mask  uint64
	pidfd int32
	errno syscall.Errno
	// limit is the index of the limit that is being set, and len(limits) before and
	// afterwards.
	limit     int
	unlimited bool

	stack [stackSize]byte // the last field, in which the collector looks for nothing
}

// stackSize is more than the functions need that may not grow their stack.
const stackSize = 4 << 10

func prepare(file string, argv []string, attr *Attr) (*child, error) {
	c := &child{terminal: attr.Terminal, pidfd: -1}
	c.files = append(make([]int, 0, len(attr.Files)+1), attr.Files...)
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

// clone starts a child that shares the memory, and calls entry with c on that stack. It returns
// the child's pid, or an error below 0.
func clone(flags, stack uintptr, pidfd *int32, c *child, entry uintptr) (result uintptr)

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

// start returns the pid of the child when its exec is over, or when it has ended, or an error
// below 0; and whether it has ended a child that did not get to its exec.
//
// The thread that forks does not wait for the exec, so that it can start others meanwhile. The
// exec, or the end, closes the child's end of a pipe. CLONE_CHILD_CLEARTID would tell too early:
// before the kernel has given the child a memory of its own. A change of its oom_score_adj would
// then change the agent's, too.
func (c *child) start(on func(func())) (result int, ended bool) {
	if on == nil {
		on = func(fork func()) { fork() }
	}
	var w *watch
	forked := make(chan int, 1)
	on(func() {
		var executed int
		w, executed, result = c.fork()
		forked <- executed
	})
	executed := <-forked
	if result < 0 {
		return result, false
	}
	awaitEOF(executed)
	return result, w.stop()
}

// fork returns the pid of the child, or an error below 0, the child's watch, and a descriptor
// which ends when the child's exec is over, or the child.
//
// It holds the lock that others hold while they create descriptors which a child must not have.
// So no other child has this one's end of the pipe.
func (c *child) fork() (w *watch, executed, result int) {
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, -int(err.(syscall.Errno))
	}
	defer unix.Close(pipe[1])
	c.files, c.spare = append(c.files, pipe[1]), len(c.files)+1
	for _, fd := range c.files {
		c.spare = max(c.spare, fd+1)
	}
	const flags = unix.CLONE_VM | uintptr(unix.SIGCHLD)
	result = c.cloneBlocked(flags | unix.CLONE_PIDFD)
	if result == -int(unix.EINVAL) { // old kernels have no pidfds, nor has an old gVisor
		result = c.cloneBlocked(flags)
	}
	if result < 0 {
		unix.Close(pipe[0])
		return nil, -1, result
	}
	return watchChild(result), pipe[0], result
}

// awaitEOF returns when nobody can write to a pipe any more, and closes it.
func awaitEOF(pipe int) {
	var none [1]byte
	for {
		if _, err := unix.Read(pipe, none[:]); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	unix.Close(pipe)
}

// cloneBlocked clones while the thread takes no signals, so that the child runs no handler
// of its parent's. It returns the child's pid, or an error below 0.
//
//go:noinline
//go:norace
//go:nosplit
func (c *child) cloneBlocked(flags uintptr) int {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, 0, uintptr(unsafe.Pointer(&c.mask)), unsafe.Sizeof(c.mask), 0, 0) // only reads the mask
	beforeFork()
	result := clone(flags, c.top(), &c.pidfd, c, entry)
	afterFork()
	return int(result)
}

// top is where the child's stack begins, downwards. Processors want it aligned, and a function
// may keep its arguments above it.
//
//go:nosplit
func (c *child) top() uintptr { return (uintptr(unsafe.Pointer(&c.stack)) + stackSize - 64) &^ 15 }

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
	if errno = c.placeFiles(); errno != 0 {
		goto failed
	}
	// The exec would close all others, but may be long in coming: a copy of what the agent
	// closes keeps a pipe from its end, and a program that was just written from its start.
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(len(c.files)), uintptr(^uint32(0)), 0)
	if c.terminal {
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1); errno != 0 {
			goto failed
		}
	}
	// This fails if the hard limit has been lowered since, which does no harm.
	syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&c.openFiles)), 0, 0, 0)
	if errno = c.setLimits(); errno != 0 {
		goto failed
	}
	// These two may wait for a file server. By now the child has all marks among its limits.
	if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
		goto failed
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.file)), uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
failed:
	c.errno = errno
	for {
		syscall.RawSyscall(unix.SYS_EXIT, 253, 0, 0)
	}
}

// placeFiles gives the child's descriptors their numbers.
//
//go:norace
//go:nosplit
func (c *child) placeFiles() (errno syscall.Errno) {
	// First move the descriptors that others would overwrite.
	for i, fd := range c.files {
		if fd >= 0 && fd < i {
			if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(fd), uintptr(c.spare), unix.O_CLOEXEC); errno != 0 {
				return errno
			}
			c.files[i] = c.spare
			c.spare++
		}
	}
	for i, fd := range c.files {
		var flags uintptr
		if i == len(c.files)-1 {
			flags = unix.O_CLOEXEC
		}
		switch {
		case fd < 0:
			syscall.RawSyscall(unix.SYS_CLOSE, uintptr(i), 0, 0)
			continue
		case fd != i:
			_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(fd), uintptr(i), flags)
		case flags == 0:
			_, _, errno = syscall.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFD, 0)
		}
		if errno != 0 {
			return errno
		}
	}
	return 0
}

// setLimits sets the child's limits. After an error c.limit is the index of the one that failed.
//
//go:norace
//go:nosplit
func (c *child) setLimits() (errno syscall.Errno) {
	for c.limit = 0; c.limit < len(c.limits); c.limit++ {
		l := &c.limits[c.limit]
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, uintptr(l.Resource), uintptr(unsafe.Pointer(&l.Rlimit)), 0, 0, 0); errno == 0 {
			continue
		}
		if !l.Optional {
			return errno
		}
		c.unlimited = true
	}
	return 0
}

// resetSignals gives all signals that the agent handles their defaults, and unblocks what the
// agent does not block. What it ignores stays ignored.
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
