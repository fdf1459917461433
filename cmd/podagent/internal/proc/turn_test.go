package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests in this file are about starts that wait: for their turn, or for the
// kernel.

// takeTurns makes all starts of m wait until the returned function is called.
func takeTurns(m *Manager) (end func()) {
	for range cap(m.forks) {
		m.forks <- struct{}{}
	}
	return func() {
		for range cap(m.forks) {
			m.endTurn()
		}
	}
}

// started is the result of a Start.
type started struct {
	process *Process
	new     bool
	err     error
}

// startLater begins a start that has to wait. It returns once the manager knows of
// it.
func startLater(ctx context.Context, t *testing.T, m *Manager, spec Spec) <-chan started {
	t.Helper()
	done := make(chan started, 1)
	go func() {
		p, isNew, err := m.Start(ctx, spec)
		done <- started{p, isNew, err}
	}()
	eventually(t, "the start", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.entries[spec.ID] != nil
	})
	return done
}

func TestStartThatWaitsForItsTurnEndsWithItsContext(t *testing.T) {
	m, spec := newManager(t), argv(t, "true")
	end := takeTurns(m)
	ctx, cancel := context.WithCancel(t.Context())
	done := startLater(ctx, t, m, spec)
	cancel()
	if got := <-done; !errors.Is(got.err, context.Canceled) {
		t.Errorf("Start: %v", got.err)
	}
	if _, err := m.Get(t.Context(), spec.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get: %v", err)
	}
	end()
	if _, isNew, err := m.Start(t.Context(), spec); err != nil || !isNew {
		t.Errorf("the next start: %v, %v", isNew, err)
	}
}

// A client may repeat a start while its first one is still waiting, on a connection
// that is lost by then.
func TestRepeatOfAStartThatEndedBeforeItsTurnStartsIt(t *testing.T) {
	m, spec := newManager(t), argv(t, "true")
	end := takeTurns(m)
	ctx, cancel := context.WithCancel(t.Context())
	first := startLater(ctx, t, m, spec)
	second := startLater(t.Context(), t, m, spec)
	cancel()
	if got := <-first; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the first: %v", got.err)
	}
	end()
	if got := <-second; got.err != nil || !got.new {
		t.Errorf("the second: %v, %v", got.new, got.err)
	}
}

func TestGetWaitsForTheTurnOfAStart(t *testing.T) {
	m, spec := newManager(t), argv(t, "true")
	end := takeTurns(m)
	done := startLater(t.Context(), t, m, spec)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Get(ctx, spec.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("Get with an ended context: %v", err)
	}
	found := make(chan *Process, 1)
	go func() {
		p, _ := m.Get(t.Context(), spec.ID)
		found <- p
	}()
	end()
	if p, got := <-found, <-done; p == nil || p != got.process {
		t.Errorf("Get returned %v, Start %v", p, got.process)
	}
}

func TestStartThatWaitsForItsTurnIsRefusedAtTheShutdown(t *testing.T) {
	m, witness := newManager(t), filepath.Join(t.TempDir(), "ran")
	end := takeTurns(m)
	done := startLater(t.Context(), t, m, shell(t, "echo > "+witness))
	m.Shutdown(t.Context())
	end()
	if got := <-done; !errors.Is(got.err, ErrShutdown) {
		t.Errorf("Start: %v", got.err)
	}
	if _, err := os.Stat(witness); err == nil {
		t.Error("it ran")
	}
}

func TestNothingIsStartedWhenTheContextHasEnded(t *testing.T) {
	m, ran := newManager(t), filepath.Join(t.TempDir(), "ran")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // select could choose either channel if both are ready
		if _, _, err := m.Start(ctx, shell(t, "echo > "+ran)); !errors.Is(err, context.Canceled) {
			t.Fatalf("Start: %v", err)
		}
	}
	for range 20 {
		end := takeTurns(m)
		ctx, cancel := context.WithCancel(t.Context())
		done := startLater(ctx, t, m, shell(t, "echo > "+ran))
		cancel()
		end()
		if got := <-done; !errors.Is(got.err, context.Canceled) {
			t.Fatalf("the Start that waited: %v", got.err)
		}
	}
	m.Shutdown(t.Context())
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran")
	}
}

func TestStartThatHangsTakesNoTimeFromOthersAtTheShutdown(t *testing.T) {
	grace := 500 * time.Millisecond // the time that the process has to end
	for !endsBesideAStartThatHangs(t, grace) {
		if grace *= 2; grace > 30*time.Second {
			t.Fatal("the other process is always killed before it ends by itself")
		}
	}
}

func endsBesideAStartThatHangs(t *testing.T, grace time.Duration) bool {
	t.Helper()
	m, dir := newManager(t, func(l *limits) { l.killGrace = grace }), t.TempDir()
	program, ready, ended := filepath.Join(dir, "program"), filepath.Join(dir, "ready"), filepath.Join(dir, "ended")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	graceful := fmt.Sprintf("trap 'sleep 0.1; echo > %s; exit' TERM; echo > %s; while :; do sleep 0.01; done", ended, ready)
	if _, _, err := m.Start(t.Context(), shell(t, graceful)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process", func() bool { _, err := os.Stat(ready); return err == nil })
	release := hangOpens(t, program)
	hanging := startLater(t.Context(), t, m, argv(t, program))
	ctx, cancel := context.WithTimeout(t.Context(), 3*grace)
	defer cancel()
	m.Shutdown(ctx)
	release()
	if got := <-hanging; !errors.Is(got.err, ErrShutdown) {
		t.Errorf("the start that hung: %v", got.err)
	}
	_, err := os.Stat(ended)
	return err == nil
}

func TestFailedStartsGiveTheirTurnBack(t *testing.T) {
	m := newManager(t)
	busy := filepath.Join(t.TempDir(), "busy")
	f, err := os.OpenFile(busy, os.O_CREATE|os.O_WRONLY, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	nowhere := argv(t, "true")
	nowhere.Dir = "/nowhere"
	for name, spec := range map[string]Spec{
		"no command":   argv(t, "/nowhere"),
		"no directory": nowhere,
		"written to":   argv(t, busy),
		"a directory":  argv(t, "/"),
	} {
		for range cap(m.forks) + 1 {
			spec.ID = argv(t, "true").ID
			if _, _, err := m.Start(t.Context(), spec); err == nil {
				t.Errorf("%s: it started", name)
			}
		}
	}
	if n := len(m.forks); n != 0 {
		t.Errorf("%d turns have not ended", n)
	}
}

// A program may be on a file system whose server does not answer. Meanwhile the
// agent goes on, and so does the Go runtime, which cannot stop a thread that is
// about to start a process.
func TestStartOfAProgramThatHangsHoldsUpNobody(t *testing.T) {
	m := newManager(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	release := hangOpens(t, program)
	var all []<-chan started
	for range cap(m.forks) + runtime.GOMAXPROCS(0) {
		all = append(all, startLater(t.Context(), t, m, argv(t, program)))
	}
	runtime.GC()
	if got := run(t, m, argv(t, "true")); got.status.Code != 0 {
		t.Errorf("another command: %+v", got.status)
	}
	for _, done := range all {
		select {
		case got := <-done:
			t.Fatalf("a start has returned: %v", got.err)
		default:
		}
	}
	release()
	for _, done := range all {
		if got := <-done; got.err != nil {
			t.Error(got.err)
		}
	}
}

func TestStartOfAProgramThatIsGoneSinceTheLastOne(t *testing.T) {
	m := newManager(t)
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := run(t, m, argv(t, file)); r.status.Code != 0 {
		t.Fatalf("the first ended with %+v", r.status)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Start(t.Context(), argv(t, file)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestStartsRelyOnWhatOthersTouched(t *testing.T) {
	now := time.Now()
	last := touch{"/dir", "/bin/program", now}
	for name, test := range map[string]struct {
		later touch
		want  bool
	}{
		"just now":     {touch{"/dir", "/bin/program", now.Add(touchFor - 1)}, true},
		"earlier":      {touch{"/dir", "/bin/program", now.Add(touchFor)}, false},
		"another dir":  {touch{"/", "/bin/program", now}, false},
		"another file": {touch{"/dir", "/bin/other", now}, false},
	} {
		if got := last.covers(test.later); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// hangOpens makes every open of a file wait until release, as if the server of its
// file system did not answer. release waits until there is such an open. It uses a
// kernel lease, which the kernel breaks after 45 s.
func hangOpens(t *testing.T, file string) (release func()) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	lease := func(kind int) {
		t.Helper()
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, kind); err != nil {
			t.Fatal(err)
		}
	}
	lease(unix.F_WRLCK)
	return func() {
		t.Helper()
		eventually(t, "somebody who opens the file", func() bool {
			held, err := unix.FcntlInt(f.Fd(), unix.F_GETLEASE, 0)
			return err == nil && held != unix.F_WRLCK
		})
		lease(unix.F_UNLCK)
	}
}
