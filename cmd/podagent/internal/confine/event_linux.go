package confine

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// event wakes the one who waits for it by the kernel alone (futex(2)), and keeps the thread
// of the one who waits. Between goroutines of which one is locked to its thread that takes a
// quarter of the time of a channel, which makes the runtime start other threads meanwhile.
type event struct{ happened atomic.Uint32 }

// Operations of futex(2), within one process.
const (
	futexWait = 0 | futexPrivate
	futexWake = 1 | futexPrivate

	futexPrivate = 128
)

// signal ends the wait, also one that begins later.
func (e *event) signal() {
	e.happened.Store(1)
	// It never blocks, and only wrong arguments make it fail.
	syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&e.happened)), futexWake, 1, 0, 0, 0)
}

// wait waits for a signal, and takes it back.
func (e *event) wait() {
	for !e.happened.CompareAndSwap(1, 0) {
		// It returns at once if the event has happened since.
		syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&e.happened)), futexWait, 0, 0, 0, 0)
	}
}
