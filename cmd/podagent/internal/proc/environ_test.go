package proc

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/procfs/procfstest"
)

// longEnvironment is what a process claims as the size of its environment. A scan for the
// members of a tree looks at the environments of others.
const longEnvironment = 64 << 30

func TestKillAndTimeoutBesideALongEnvironment(t *testing.T) {
	procfstest.ClaimEnviron(t, longEnvironment)
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

// BenchmarkKillBesideALongEnvironment reports how long a kill takes beside a process with a
// long environment, and beside one with an ordinary one, in turns, and the ratio of both.
func BenchmarkKillBesideALongEnvironment(b *testing.B) {
	var took [2][]time.Duration
	for b.Loop() {
		for i, size := range []int{4 << 10, longEnvironment} {
			took[i] = append(took[i], killBeside(b, size))
		}
	}
	ordinary, long := median(took[0]), median(took[1])
	b.ReportMetric(ordinary/1e3, "ordinary-µs")
	b.ReportMetric(long/1e3, "long-µs")
	b.ReportMetric(long/ordinary, "long/ordinary")
}

// killBeside returns how long a kill takes beside a process that claims an environment.
func killBeside(b *testing.B, size int) time.Duration {
	b.Helper()
	defer procfstest.ClaimEnviron(b, size)()
	p := start(b, newManager(b), argv(b, "sleep", "300"))
	begun := time.Now()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		b.Fatal(err)
	}
	finish(b, p)
	return time.Since(begun)
}
