package proc

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/eintr"
)

// reaper knows the children that the manager started, and reaps the others: the orphans
// that the kernel gives to PID 1, or to a subreaper.
//
// It leaves the manager's children to their owners. The kernel gives orphans to the main
// thread (find_new_reaper, exit.c), and a child to the thread that forked it. The main
// thread reaps only its own (__WNOTHREAD), and so meets no child of another thread.
type reaper struct {
	log *slog.Logger
	// ownReaped wakes awaitOwner.
	ownReaped chan struct{}

	mu sync.Mutex
	// own are the children that the manager started.
	own map[int]struct{}
}

func newReaper(log *slog.Logger) *reaper {
	return &reaper{log: log, ownReaped: make(chan struct{}, 1), own: map[int]struct{}{}}
}

// register notes a child that the manager started.
func (r *reaper) register(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own[pid] = struct{}{}
}

// reapOwn reaps a registered child that has ended. It holds the lock, so that the
// registration ends before the kernel gives the number to another.
func (r *reaper) reapOwn(pid int) (*exit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, err := reapPid(pid, unix.WNOHANG)
	delete(r.own, pid)
	select {
	case r.ownReaped <- struct{}{}:
	default:
	}
	return e, err
}

func (r *reaper) owns(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, own := r.own[pid]
	return own
}

// ReapOrphans reaps the processes that the agent did not start, but adopted as PID 1 or
// as a subreaper when their parents ended. It returns when ctx ends.
//
// It must be called by a goroutine that is locked to the main thread
// (runtime.LockOSThread in an init function), and nothing else may start processes on
// that thread.
func (m *Manager) ReapOrphans(ctx context.Context) {
	if unix.Gettid() != os.Getpid() {
		m.log.Error("cannot reap orphans: this is not the main thread")
		return
	}
	m.reaper.run(ctx)
}

// run reaps when children have ended. Most belong to owners, so after a signal it lets some
// come together.
func (r *reaper) run(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	for {
		r.reapOrphans()
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
		hear := ignoreSignal(unix.SIGCHLD)
		select {
		case <-time.After(reapPause):
		case <-ctx.Done():
		}
		hear() // before the look: what has ended until now sent no signal
	}
}

// ignoreSignal has the kernel drop a signal whose default is that, and returns how to end
// that. The runtime does not know of it. Otherwise each child that ends in a crowd would
// interrupt a thread, and wake two. It has one caller at a time.
func ignoreSignal(sig unix.Signal) (hear func()) {
	var byDefault, handler sigaction
	if setSigaction(sig, &byDefault, &handler) != nil {
		return func() {}
	}
	return func() { _ = setSigaction(sig, &handler, nil) }
}

// sigaction is the kernel's struct sigaction: a handler, flags, a restorer and a mask of 64
// bits, on amd64 and arm64. The zero value is the default.
type sigaction [4]uint64

// setSigaction sets the action of a signal, and old, unless nil, to the one before.
func setSigaction(sig unix.Signal, next, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(next)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(next[3]), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// reapOrphans reaps the orphans that have ended.
func (r *reaper) reapOrphans() {
	for {
		pid := endedOrphan()
		switch {
		case pid == 0:
			return
		case r.owns(pid): // the thread that forked it has ended
			r.awaitOwner()
		default:
			r.reapOrphan(pid)
		}
	}
}

// endedOrphan returns a child of this thread that has ended, without reaping it; 0 if
// there is none.
func endedOrphan() int {
	const flags = unix.WEXITED | unix.WNOWAIT | unix.WNOHANG | unix.WNOTHREAD
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, flags, nil)
		if err == nil && info.Signo != 0 {
			return signalledBy(&info)
		}
		if !errors.Is(err, unix.EINTR) {
			return 0
		}
	}
}

// signalledBy is the si_pid of a siginfo_t. The union that holds it first
// follows three integers and is aligned as a pointer.
func signalledBy(info *unix.Siginfo) int {
	const size = unsafe.Sizeof(uintptr(0))
	offset := (3*unsafe.Sizeof(info.Signo) + size - 1) / size * size
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset)))
}

// awaitOwner waits until some owner has reaped its child, but not for long.
func (r *reaper) awaitOwner() {
	slow := time.NewTimer(reapPause)
	defer slow.Stop()
	select {
	case <-r.ownReaped:
	case <-slow.C:
	}
}

// reapOrphan reaps a child of this thread.
func (r *reaper) reapOrphan(pid int) {
	_ = eintr.Repeat(func() error { // afterwards it is reaped, or has not ended
		_, err := unix.Wait4(pid, nil, unix.WNOHANG|unix.WNOTHREAD, nil)
		return err
	})
}
