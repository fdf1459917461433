package confine

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// Thread is a thread within the boundary, and so is what it starts. It lasts as long as the
// program. A nil Thread stands for none.
type Thread struct {
	parts Parts
	work  chan func()
}

// startThread starts a thread within a boundary of these parts.
func startThread(parts Parts) (*Thread, error) {
	t := &Thread{parts: parts, work: make(chan func())}
	applied := make(chan error)
	onThread(func() {
		err := parts.apply()
		applied <- err
		if err == nil {
			t.run()
		}
	})
	if err := <-applied; err != nil {
		return nil, fmt.Errorf("cannot confine commands: %w", err)
	}
	return t, nil
}

func (t *Thread) run() {
	for f := range t.work {
		f()
	}
}

// Do runs f on the thread, and returns when it has. Without a thread it runs f where it is.
func (t *Thread) Do(f func()) {
	if t == nil {
		f()
		return
	}
	done := make(chan struct{})
	t.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Parts are what the thread's boundary consists of.
func (t *Thread) Parts() Parts {
	if t == nil {
		return 0
	}
	return t.parts
}

// Has reports whether the boundary has all of these parts.
func (t *Thread) Has(p Parts) bool { return t.Parts()&p == p }

// onThread runs f on a thread of its own, which is not the main one, and which ends with f.
// It returns when f has that thread.
func onThread(f func()) {
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			onThread(f) // on another thread, as this goroutine keeps this one meanwhile
			runtime.UnlockOSThread()
			return
		}
		locked <- struct{}{}
		f()
	}()
	<-locked
}

// apply puts the calling thread within a boundary of these parts, for good.
func (p Parts) apply() error {
	for _, step := range []struct {
		part  Parts
		apply func() error
	}{
		{NoNewPrivs, noNewPrivs},
		{Domain, func() error { return enterDomain(p&Signals != 0) }},
		{Filter, func() error { return loadFilter(slices.Concat(refusals, shield(unix.Gettid()))) }},
	} {
		if p&step.part == 0 {
			continue
		}
		if err := step.apply(); err != nil {
			return fmt.Errorf("%s: %w", step.part.Names()[0], err)
		}
	}
	return nil
}

func noNewPrivs() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}
