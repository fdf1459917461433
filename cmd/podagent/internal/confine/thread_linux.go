package confine

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Thread is a thread within the boundary, and so is what it starts. It lasts as long as the
// program. A nil Thread stands for none.
type Thread struct {
	parts Parts

	mu sync.Mutex
	// idle says that the thread waits for woken, to run next.
	idle  bool
	next  func()
	woken event
	// queue holds what came while the thread was busy.
	queue []func()
}

// startThread starts a thread within a boundary.
func startThread(b boundary) (*Thread, error) {
	t := &Thread{parts: b.parts}
	applied := make(chan error)
	onThread(func() {
		err := b.apply()
		applied <- err
		if err == nil {
			t.serve()
		}
	})
	if err := <-applied; err != nil {
		return nil, fmt.Errorf("cannot confine commands: %w", err)
	}
	return t, nil
}

// serve runs what it is given, for ever.
func (t *Thread) serve() {
	for {
		t.take()()
	}
}

// take waits for what to run next.
func (t *Thread) take() func() {
	if first := t.unqueue(); first != nil {
		return first
	}
	t.woken.wait()
	next := t.next
	t.next = nil
	return next
}

// unqueue returns the first of the queue. If there is none, the thread is idle.
func (t *Thread) unqueue() func() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.idle = true
		return nil
	}
	first := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	return first
}

// Go has the thread run f, after what it was given before, and does not wait for that. Without
// a thread it runs f where it is.
func (t *Thread) Go(f func()) {
	if t == nil {
		f()
		return
	}
	if t.hand(f) {
		t.woken.signal()
	}
}

// Do is Go, but returns when f has run.
func (t *Thread) Do(f func()) {
	ran := make(chan struct{})
	t.Go(func() {
		defer close(ran)
		f()
	})
	<-ran
}

// hand gives f to the thread, and reports whether the caller must wake it.
func (t *Thread) hand(f func()) (wakes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle {
		t.idle, t.next = false, f
		return true
	}
	t.queue = append(t.queue, f)
	return false
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

// apply puts the calling thread within the boundary, for good.
func (b boundary) apply() error {
	for _, step := range []struct {
		part  Parts
		apply func() error
	}{
		{NoNewPrivs, noNewPrivs},
		{Domain | Network | Files, b.enterDomain},
		{Filter, func() error { return loadFilter(b.rules()) }},
	} {
		if b.parts&step.part == 0 {
			continue
		}
		if err := step.apply(); err != nil {
			return fmt.Errorf("%s: %w", (b.parts & step.part).Names()[0], err)
		}
	}
	return nil
}

// shielded is the number that the filter keeps signals from, beside the thread's.
func (b boundary) shielded() int {
	if b.parts&Signals != 0 { // the domain keeps them from the whole program
		return unix.Gettid()
	}
	return os.Getpid()
}

func noNewPrivs() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}
