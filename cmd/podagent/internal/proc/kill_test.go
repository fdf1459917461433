package proc

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The tests in this file kill processes before they run.

func TestKillPreventsAStartThatComesLater(t *testing.T) {
	m, ran := newManager(t), filepath.Join(t.TempDir(), "ran")
	spec := shell(t, "echo > "+ran)
	if err := m.Signal(t.Context(), spec.ID, syscall.SIGTERM); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("TERM: %v", err)
	}
	if m.graves().count != 0 {
		t.Error("TERM prevents a start")
	}
	if err := m.Signal(t.Context(), spec.ID, syscall.SIGKILL); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("KILL: %v", err)
	}
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, ErrTooOld) {
		t.Errorf("Start: %v", err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran")
	}
	if err := m.Signal(t.Context(), "no id", syscall.SIGKILL); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("KILL of an invalid id: %v", err)
	}
}

func TestKillEndsAStartThatWaitsForItsTurn(t *testing.T) {
	m, ran := newManager(t), filepath.Join(t.TempDir(), "ran")
	spec := shell(t, "echo > "+ran)
	end := takeTurns(m)
	first := startLater(t.Context(), t, m, spec)
	second := startLater(t.Context(), t, m, spec)
	if err := m.Signal(t.Context(), spec.ID, syscall.SIGKILL); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("KILL: %v", err)
	}
	for _, done := range []<-chan started{first, second} {
		if got := <-done; !errors.Is(got.err, ErrTooOld) {
			t.Errorf("Start: %v", got.err)
		}
	}
	end()
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran")
	}
}

// When the process begins to run, neither its caller nor the one that killed it is
// still there.
func TestKillDuringTheForkEndsTheProcess(t *testing.T) {
	m, spec := newManager(t), argv(t, "sleep", "infinity")
	syscall.ForkLock.RLock() // every fork waits for this lock
	ctx, leave := context.WithCancel(t.Context())
	done := startLater(ctx, t, m, spec)
	eventually(t, "the turn of the start", func() bool { return len(m.forks) == 1 })
	leave()
	if err := m.Signal(ctx, spec.ID, syscall.SIGKILL); !errors.Is(err, context.Canceled) {
		t.Errorf("KILL: %v", err)
	}
	syscall.ForkLock.RUnlock()
	got := <-done
	if got.err != nil {
		t.Fatalf("Start: %v", got.err)
	}
	if status, err := got.process.Wait(t.Context()); status.Signal != int(syscall.SIGKILL) || err != nil {
		t.Errorf("it ended with %+v, %v", status, err)
	}
}
