package proc

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/procfs/procfstest"
)

// TestKillAndTimeoutBesideALongEnvironment has a process that claims an environment of
// 256 MiB; it could as well be 64 GiB. Each scan for the members of another tree looks at
// it.
func TestKillAndTimeoutBesideALongEnvironment(t *testing.T) {
	procfstest.ClaimEnviron(t, 256<<20)
	m := newManager(t)
	p := start(t, m, argv(t, "sleep", "300"))
	n := procfstest.Allocated(func() {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		finish(t, p)
		spec := argv(t, "sleep", "300")
		spec.Timeout = 10 * time.Millisecond
		if st := run(t, m, spec).status; st.Reason != TimedOut {
			t.Errorf("got %+v", st)
		}
	})
	if t.Logf("%d KiB", n>>10); n > 64<<20 {
		t.Errorf("the scans took %d MiB", n>>20)
	}
}

// The marker comes first, however long the environment is.
func TestMarkerIsFoundInALongEnvironment(t *testing.T) {
	m := newManager(t)
	spec := argv(t, "sleep", "300")
	for _, name := range []string{"A", "B", "C", "D"} {
		spec.Env = append(spec.Env, name+"="+strings.Repeat("x", 100<<10))
	}
	p := start(t, m, spec)
	m.proc.marks.step = 0 // or else it would not look at the environment
	// The kernel lets the agent go on shortly before it shows the new environment.
	eventually(t, "that its marker is seen", func() bool {
		found, err := m.proc.member(p.PID())
		return err == nil && m.proc.identify(&found) == nil && found.exec == spec.ID
	})
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	finish(t, p)
}
