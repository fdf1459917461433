package proc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// events attaches. It returns the standard output that it read, and the last event.
func events(t *testing.T, p *Process, opts AttachOptions) (out string, last Event) {
	t.Helper()
	for ev, err := range p.Attach(testContext(t), opts) {
		if err != nil {
			t.Fatal(err)
		}
		out += string(ev.Data)
		last = ev
	}
	return out, last
}

// attended returns how many readers are attached or expected back.
func attended(p *Process) int {
	st := p.out.State()
	return st.Readers + st.Expected
}

// talker starts a process that prints hello, and goodbye at the end of its standard
// input.
func talker(t *testing.T, m *Manager) *Process {
	t.Helper()
	p := start(t, m, withStdin(t, "sh", "-c", "printf hello; cat; printf goodbye"))
	eventually(t, "hello", func() bool { n, _, _ := p.out.sizes(); return n == 5 })
	return p
}

func TestAttachThatDoesNotFollowEndsWithTheOutputSoFar(t *testing.T) {
	p := talker(t, newManager(t))
	for offset, want := range map[int64]string{0: "hello", 3: "lo", 5: ""} {
		out, last := events(t, p, AttachOptions{Stdout: offset, NoFollow: true})
		if out != want || !last.Detached || last.Status != nil {
			t.Errorf("from %d: got %q, %+v", offset, out, last)
		}
	}
	if n := attended(p); n != 0 {
		t.Errorf("%d readers are expected back", n)
	}
	p.CloseStdin()
	finish(t, p)
	if out, last := events(t, p, AttachOptions{NoFollow: true}); out != "hellogoodbye" || last.Status == nil || last.Detached {
		t.Errorf("after the end: got %q, %+v", out, last)
	}
}

// TestEndIsThereForAllReaders lets many readers attach again as soon as they see the
// end.
func TestEndIsThereForAllReaders(t *testing.T) {
	m := newManager(t)
	for range 200 {
		p := start(t, m, argv(t, "/bin/true"))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, last := events(t, p, AttachOptions{NoOutput: true}); last.Status == nil {
					t.Errorf("the end is %+v", last)
				}
				if _, last := events(t, p, AttachOptions{NoFollow: true}); last.Status == nil {
					t.Error("the process ended, and then ran")
				}
			})
		}
		all.Wait()
	}
}

func TestAttachWithoutOutputWaitsForTheEnd(t *testing.T) {
	p := talker(t, newManager(t))
	before := attended(p)
	if out, last := events(t, p, AttachOptions{NoOutput: true, NoFollow: true}); out != "" || !last.Detached {
		t.Errorf("while it runs: got %q, %+v", out, last)
	}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	for ev, err := range p.Attach(ctx, AttachOptions{NoOutput: true}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %+v, %v", ev, err)
		}
	}
	if n := attended(p); n != before {
		t.Errorf("%d readers are attached or expected, %d before", n, before)
	}
	p.CloseStdin()
	if out, last := events(t, p, AttachOptions{NoOutput: true}); out != "" || last.Status == nil || last.Status.Stdout != 12 {
		t.Errorf("got %q, %+v", out, last)
	}
}

func TestDetachedReaderIsNotExpectedBack(t *testing.T) {
	for _, noOutput := range []bool{false, true} {
		p := talker(t, newManager(t, func(l *limits) { l.Memory.Process = 1 << 20 }))
		finished := make(chan error)
		detach := make(chan struct{})
		var last Event
		go func() {
			var err error
			for last, err = range p.Attach(testContext(t), AttachOptions{Detach: detach, NoOutput: noOutput}) {
				if err != nil {
					break
				}
			}
			finished <- err
		}()
		eventually(t, "attaching", func() bool { return noOutput || attended(p) == 1 })
		close(detach)
		if err := <-finished; err != nil || !last.Detached || last.Status != nil {
			t.Errorf("got %+v, %v", last, err)
		}
		if n := attended(p); !noOutput && n != 0 {
			t.Errorf("%d are expected to come back", n)
		}
		p.CloseStdin()
		finish(t, p)
	}
}

// stopReading attaches a reader that takes one event and no more until goOn is
// called. goOn returns the reader's next offset and how it ended.
func stopReading(t *testing.T, p *Process) (goOn func() (next int64, err error)) {
	t.Helper()
	stopped, resume, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	next := int64(-1)
	go func() {
		for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
			if err != nil {
				ended <- err
				return
			}
			if next < 0 {
				next = ev.Offset + int64(len(ev.Data))
				close(stopped)
				<-resume
			}
		}
		ended <- nil
	}()
	<-stopped
	return func() (int64, error) {
		close(resume)
		return next, <-ended
	}
}

// TestReaderThatStopsReadingHoldsUpNobodyForLong has a reader stop for longer than
// the grace of a stalled reader. From then on the second reader and the process
// continue. When the first comes back, it learns how much it missed.
func TestReaderThatStopsReadingHoldsUpNobodyForLong(t *testing.T) {
	const size = 100_000_000
	overEach(t, func(t *testing.T, newManager makeManager) {
		m := newManager(t, func(l *limits) { l.Stall = 5 * time.Second })
		p := start(t, m, shell(t, counted))
		goOn := stopReading(t, p)
		n, omitted := countOutput(t, p)
		if n != size || omitted != 0 {
			t.Errorf("the second reader got %d bytes, omitted %d", n, omitted)
		}
		next, err := goOn()
		if !errors.Is(err, ErrStalled) {
			t.Errorf("the reader that stopped: %v", err)
		}
		r, err := collect(testContext(t), p, next, 0)
		if err != nil || next+r.omitted[0]+int64(r.stdout.Len()) != size || r.omitted[0] == 0 {
			t.Errorf("resumed at %d: %d bytes, omitted %v, %v", next, r.stdout.Len(), r.omitted, err)
		}
	})
}

// countOutput attaches, and counts the bytes of standard output.
func countOutput(t *testing.T, p *Process) (n, omitted int64) {
	t.Helper()
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		n += int64(len(ev.Data))
		omitted += ev.Omitted
	}
	return n, omitted
}

// TestReaderThatStopsReadingIsLeftAloneWhileThereIsRoom lets a process print less
// than the journal keeps.
func TestReaderThatStopsReadingIsLeftAloneWhileThereIsRoom(t *testing.T) {
	m := newDiskManager(t, func(l *limits) { l.Stall = time.Nanosecond })
	p := start(t, m, shell(t, "head -c 40000000 /dev/zero"))
	goOn := stopReading(t, p)
	if n, _ := countOutput(t, p); n != 40_000_000 {
		t.Errorf("the second reader got %d bytes", n)
	}
	if _, err := goOn(); err != nil {
		t.Errorf("the one that stopped: %v", err)
	}
}

// TestCutLosesNoMoreThanAClientsWindow cuts a connection after a window of bytes
// was sent but not received, while the process fills the journal.
func TestCutLosesNoMoreThanAClientsWindow(t *testing.T) {
	const window, size, taken = 16<<20 + 256<<10, 200_000_000, 60_000_000
	m := newDiskManager(t, func(l *limits) { l.AttachGrace = hung })
	p := start(t, m, shell(t, "head -c 200000000 /dev/zero"))
	var at int64
	for ev, err := range p.Attach(testContext(t), AttachOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if at = ev.Offset + int64(len(ev.Data)); at > taken {
			break
		}
	}
	eventually(t, "a full journal", func() bool { return isWaiting(p) })
	r, err := collect(testContext(t), p, at-window, 0)
	if err != nil || r.omitted[0] > 0 || at-window+int64(r.stdout.Len()) != size {
		t.Errorf("resumed at %d: %d bytes, omitted %v, %v", at-window, r.stdout.Len(), r.omitted, err)
	}
}

func TestLaterReaderGetsWhatIsKept(t *testing.T) {
	const size = 100_000_000
	m := newDiskManager(t)
	p := start(t, m, shell(t, counted))
	if n, omitted := countOutput(t, p); n != size || omitted > 0 {
		t.Fatalf("got %d bytes, omitted %d", n, omitted)
	}
	info := m.List()[0]
	r := finish(t, p)
	if r.omitted[0]+int64(r.stdout.Len()) != size || info.Stdout != size || info.StdoutKept != int64(r.stdout.Len()) {
		t.Errorf("omitted %d, got %d bytes: %+v", r.omitted[0], r.stdout.Len(), info)
	}
	if kept := r.stdout.Len(); kept > m.lim.Disk.Process || kept < m.lim.Disk.Process*31/32 {
		t.Errorf("%d bytes were kept", kept)
	}
}

// cutReader attaches by a name and reads hello. Like a reader whose connection was
// cut, it stays until leave is called.
func cutReader(t *testing.T, p *Process, name string) (leave func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	got, left := make(chan struct{}), make(chan error, 1)
	go func() {
		var last error
		for ev, err := range p.Attach(ctx, AttachOptions{Reader: name}) {
			if last = err; len(ev.Data) > 0 {
				close(got)
			}
		}
		left <- last
	}()
	<-got
	return func() error {
		cancel()
		return <-left
	}
}

func TestReaderThatIsBackBeforeItsCutWasNoticedIsNotExpectedAgain(t *testing.T) {
	p := talker(t, newManager(t))
	first := cutReader(t, p, "a")
	second := cutReader(t, p, "a") // the reader's return
	if err := first(); !errors.Is(err, ErrReplaced) && !errors.Is(err, context.Canceled) {
		t.Errorf("the first ended with %v", err)
	}
	if n := attended(p); n != 1 {
		t.Errorf("%d readers are attached or expected, want only the one that came back", n)
	}
	second()
	if n := attended(p); n != 1 {
		t.Errorf("%d readers are attached or expected, want the seat of the second", n)
	}
	cutReader(t, p, "a")()
	if n := attended(p); n != 1 {
		t.Errorf("%d readers are attached or expected, want the seat of the third", n)
	}
}

func TestReaderTakesNoSeatOfAnotherName(t *testing.T) {
	p := talker(t, newManager(t))
	cutReader(t, p, "a")()
	events(t, p, AttachOptions{NoFollow: true, Reader: "b"})
	events(t, p, AttachOptions{NoFollow: true})
	if n := attended(p); n != 1 {
		t.Errorf("%d readers are attached or expected, want the seat of the first", n)
	}
}
