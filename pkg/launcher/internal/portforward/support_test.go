package portforward

import (
	"runtime"
	"testing"
	"time"
)

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

// eventually polls until done returns true, or fails with what done saw last.
func eventually(t *testing.T, what string, done func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		ok, saw := done()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, patience, saw)
		}
		time.Sleep(time.Millisecond)
	}
}

func allStacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
