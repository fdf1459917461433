package launcher_test

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs f as a user without any rights, on a thread of its own: Linux
// has credentials by thread.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with f
		const nobody = 65534
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
			t.Errorf("setresuid: %v", errno)
			return
		}
		f()
	}()
	<-done
}
