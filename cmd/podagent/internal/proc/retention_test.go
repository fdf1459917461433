package proc

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

func TestForgottenProcessNeverRunsAgain(t *testing.T) {
	m := newManager(t)
	spec := shell(t, "true")
	finish(t, start(t, m, spec))
	if err := m.Forget(spec.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, ErrTooOld) {
		t.Errorf("got %v", err)
	}
}

func TestOldestOfTooManyAreForgotten(t *testing.T) {
	m := newManager(t, func(l *limits) { l.kept = 3 })
	var ps []*Process
	for range 5 {
		p := start(t, m, argv(t, "true"))
		finish(t, p)
		ps = append(ps, p)
	}
	if n := len(m.List()); n != 3 {
		t.Errorf("%d are kept", n)
	}
	for i, p := range ps {
		if _, err := m.Get(t.Context(), p.ID()); errors.Is(err, fs.ErrNotExist) != (i < 2) {
			t.Errorf("process %d: %v", i, err)
		}
	}
}

func TestProcessesAreForgottenInAnyOrder(t *testing.T) {
	m := newManager(t)
	var ids []string
	for range 4 {
		p := start(t, m, argv(t, "true"))
		finish(t, p)
		ids = append(ids, p.ID())
	}
	for n, i := range []int{1, 0, 3, 2} {
		if err := m.Forget(ids[i]); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Get(t.Context(), ids[i]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("process %d: %v", i, err)
		}
		if left := len(m.List()); left != 3-n {
			t.Errorf("%d processes are left after %d were forgotten", left, n+1)
		}
	}
	finish(t, start(t, m, argv(t, "true")))
	if left := len(m.List()); left != 1 {
		t.Errorf("%d processes are left after another", left)
	}
}

// TestEndThatNobodySawOutlivesTheOthers starts a process whose end no client
// sees, and many after it.
func TestEndThatNobodySawOutlivesTheOthers(t *testing.T) {
	m := newManager(t, func(l *limits) { l.kept = 4 })
	left := start(t, m, argv(t, "true"))
	left.Wait(testContext(t))
	for range 20 {
		finish(t, start(t, m, argv(t, "true")))
	}
	if _, err := m.Get(t.Context(), left.ID()); err != nil {
		t.Error(err)
	}
	finish(t, left)
	for range 5 {
		finish(t, start(t, m, argv(t, "true")))
	}
	if _, err := m.Get(t.Context(), left.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its end was reported: %v", err)
	}
}

func TestEndedProcessIsForgottenByItself(t *testing.T) {
	m := newManager(t, func(l *limits) { l.retention, l.skew = 50*time.Millisecond, -time.Hour })
	finish(t, start(t, m, argv(t, "true")))
	eventually(t, "forgetting", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.entries) == 0
	})
}

func TestOldestJournalsAreDropped(t *testing.T) {
	m := newManager(t, func(l *limits) { l.Memory.Total, l.Memory.Spare = 3*journal.ChunkSize, 0 })
	var ps []*Process
	for range 5 {
		// One write, so that the size does not depend on how the output is read.
		p := start(t, m, argv(t, "dd", "if=/dev/zero", "bs=60000", "count=1", "status=none"))
		finish(t, p)
		ps = append(ps, p)
	}
	for i, p := range ps {
		r := finish(t, p)
		want := int64(0)
		if i < 2 {
			want = 60000
		}
		if r.omitted[0] != want || r.status.Stdout != 60000 || r.stdout.Len() != int(60000-want) {
			t.Errorf("process %d: omitted %v, got %d bytes, %+v", i, r.omitted, r.stdout.Len(), r.status)
		}
	}
}

func TestJournalThatIsBeingReadIsKept(t *testing.T) {
	m := newManager(t, func(l *limits) { l.Memory.Total, l.Memory.Spare = 512<<10, 128<<10 })
	p := start(t, m, shell(t, "head -c 200000 /dev/zero"))
	n := 0
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			p.Wait(testContext(t))
			finish(t, start(t, m, shell(t, "head -c 1000000 /dev/zero")))
		}
		if ev.Omitted > 0 {
			t.Errorf("%d bytes omitted", ev.Omitted)
		}
		n += len(ev.Data)
	}
	if n != 200000 {
		t.Errorf("got %d bytes", n)
	}
}

func TestNothingLeaks(t *testing.T) {
	m := newManager(t)
	exec := func() {
		spec := shell(t, "cat; echo err >&2; exit 1")
		spec.Stdin, spec.Timeout = true, time.Hour
		p := start(t, m, spec)
		if _, err := p.WriteStdin(testContext(t), 0, []byte("x")); err != nil {
			t.Fatal(err)
		}
		p.CloseStdin()
		finish(t, p)
		if _, _, err := m.Start(t.Context(), argv(t, "no-such-command")); err == nil {
			t.Fatal("it started")
		}
		missing := argv(t, "true")
		missing.Dir = "/none"
		if _, _, err := m.Start(t.Context(), missing); err == nil {
			t.Fatal("it started")
		}
	}
	exec()
	goroutines, descriptors := runtime.NumGoroutine(), countDescriptors(t)
	for range 50 {
		exec()
	}
	eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "closing all descriptors", func() bool { return countDescriptors(t) <= descriptors })
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
