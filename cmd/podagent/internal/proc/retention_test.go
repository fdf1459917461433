package proc

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestOldIDsAreRefused(t *testing.T) {
	m := newManager(t)
	spec := argv(t, "true")
	spec.ID = idAt(t, time.Now().Add(-retention))
	if _, _, err := m.Start(spec); !errors.Is(err, ErrTooOld) {
		t.Errorf("got %v", err)
	}
	spec.ID = idAt(t, time.Now().Add(-retention/2))
	finish(t, start(t, m, spec))
	spec.ID = idAt(t, time.Now().Add(retention/2))
	finish(t, start(t, m, spec))
}

func TestForgottenProcessNeverRunsAgain(t *testing.T) {
	m := newManager(t)
	spec := shell(t, "true")
	finish(t, start(t, m, spec))
	if err := m.Forget(spec.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Start(spec); !errors.Is(err, ErrTooOld) {
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
		if _, err := m.Get(p.ID()); errors.Is(err, fs.ErrNotExist) != (i < 2) {
			t.Errorf("process %d: %v", i, err)
		}
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
	m := newManager(t, func(l *limits) { l.journals = 4 * 128 << 10 })
	var ps []*Process
	for range 5 {
		p := start(t, m, shell(t, "head -c 100000 /dev/zero"))
		finish(t, p)
		ps = append(ps, p)
	}
	for i, p := range ps {
		r := finish(t, p)
		want := int64(0)
		if i < 2 {
			want = 100000
		}
		if r.omitted[0] != want || r.status.Stdout != 100000 || r.stdout.Len() != int(100000-want) {
			t.Errorf("process %d: omitted %v, got %d bytes, %+v", i, r.omitted, r.stdout.Len(), r.status)
		}
	}
}

func TestJournalThatIsBeingReadIsKept(t *testing.T) {
	m := newManager(t, func(l *limits) { l.journals = 512 << 10 })
	p := start(t, m, shell(t, "head -c 200000 /dev/zero"))
	n := 0
	for ev, err := range p.Attach(testContext(t), 0, 0) {
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

func TestTombstonesOverTheLimitRaiseTheFloor(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) uuid.UUID { return uuid.MustParse(idAt(t, now.Add(d))) }
	g := tombstones{limit: 2, age: time.Hour}
	ids := []uuid.UUID{at(-30 * time.Minute), at(-20 * time.Minute), at(-10 * time.Minute), at(-5 * time.Minute)}
	for _, id := range ids {
		g.bury(id, now)
	}
	for i, id := range ids {
		if !g.refuses(id, now) {
			t.Errorf("id %d would run again", i)
		}
	}
	if len(g.ids) != 2 || len(g.order) != 2 {
		t.Errorf("%d ids are kept", len(g.ids))
	}
	if g.refuses(at(-15*time.Minute), now) {
		t.Error("an id after the floor is refused")
	}
	if !g.refuses(at(-21*time.Minute), now) || !g.refuses(at(-2*time.Hour), now) {
		t.Error("an id before the floor is accepted")
	}
	// A clock that is ahead locks nobody out.
	for range 3 {
		g.bury(at(time.Hour), now)
	}
	for range 3 {
		g.bury(at(0), now)
	}
	if g.refuses(at(time.Minute), now) {
		t.Error("a new id is refused")
	}
	g.bury(at(2*time.Hour), now.Add(4*time.Hour))
	if len(g.ids) != 0 {
		t.Errorf("%d expired ids are kept", len(g.ids))
	}
}

func TestJournalKeepsTheNewest(t *testing.T) {
	const size = 2 * journalStart
	j := journal{}
	var all []byte
	for i := range 400 {
		b := make([]byte, i*7%300)
		for k := range b {
			b[k] = byte(i + k)
		}
		j.resize(min(size, j.sizeFor(j.held()+len(b))))
		j.append(b)
		all = append(all, b...)
		if j.end != int64(len(all)) || j.start != max(0, j.end-int64(len(j.ring))) || len(j.ring) > size {
			t.Fatalf("holds %d to %d of %d in %d", j.start, j.end, len(all), len(j.ring))
		}
		got := make([]byte, 20000)
		for _, off := range []int64{j.start, (j.start + j.end) / 2, j.end} {
			n := j.readAt(got, off)
			if string(got[:n]) != string(all[off:]) {
				t.Fatalf("differs at %d", off)
			}
		}
	}
	if j.start == 0 || j.held() != size {
		t.Errorf("holds %d to %d", j.start, j.end)
	}
	big := make([]byte, 25000)
	for i := range big {
		big[i] = byte(i % 251)
	}
	j.append(big)
	got := make([]byte, size)
	if n := j.readAt(got, j.start); n != size || string(got) != string(big[25000-size:]) || j.end != int64(len(all)+25000) {
		t.Errorf("read %d", n)
	}
	j.resize(size / 2)
	if n := j.readAt(got, j.start); n != size/2 || string(got[:n]) != string(big[25000-size/2:]) {
		t.Errorf("read %d from a smaller ring", n)
	}
	j.drop()
	if j.held() != 0 || j.readAt(got, j.start) != 0 {
		t.Error("it holds bytes after the drop")
	}
	j.resize(size)
	j.append([]byte("more"))
	if n := j.readAt(got, j.start); string(got[:n]) != "more" {
		t.Errorf("got %q", got[:n])
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
		if _, _, err := m.Start(argv(t, "no-such-command")); err == nil {
			t.Fatal("it started")
		}
		missing := argv(t, "true")
		missing.Dir = "/none"
		if _, _, err := m.Start(missing); err == nil {
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
