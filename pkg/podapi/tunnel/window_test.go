package tunnel

import (
	"errors"
	"syscall"
	"testing"
)

// fill fills and empties a window this many times, and returns its size.
func fill(t *testing.T, w *window, times int) int64 {
	t.Helper()
	for range times {
		n := int(w.limit - w.received)
		if err := w.receive(n); err != nil {
			t.Fatal(err)
		}
		w.take(n)
	}
	return w.size
}

func TestWindowGrowsOnlyIfTheOtherSideWaitsForIt(t *testing.T) {
	var b Budget
	w := newWindow(&b)
	for range 1000 { // requests that never fill it
		if err := w.receive(100); err != nil {
			t.Fatal(err)
		}
		w.take(100)
	}
	if w.size != firstWindow || w.limit < 100_000+firstWindow/2 {
		t.Errorf("after small requests the window has %d bytes, up to %d", w.size, w.limit)
	}
	if size := fill(t, w, 20); size != largestWindow {
		t.Errorf("when it is always full the window has %d bytes, want %d", size, largestWindow)
	}
	w.end()
	if b.lent != 0 || b.grown != 0 {
		t.Errorf("after its end %d bytes are lent to %d", b.lent, b.grown)
	}
	w.take(1)
	if b.lent != 0 {
		t.Errorf("it was lent %d bytes after its end", b.lent)
	}
}

func TestWindowRefusesMoreThanItAllowed(t *testing.T) {
	w := newWindow(new(Budget))
	if err := w.receive(firstWindow); err != nil {
		t.Error(err)
	}
	if err := w.receive(1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestWindowsShareTheBudget(t *testing.T) {
	var b Budget
	windows := make([]*window, 64)
	for i := range windows {
		windows[i] = newWindow(&b)
		fill(t, windows[i], 20)
	}
	for range 20 { // the windows that came first have made room
		for _, w := range windows {
			fill(t, w, 1)
		}
	}
	held := int64(0)
	for i, w := range windows {
		if w.size < sharedMemory/64/2 || w.size > 2*sharedMemory/64 {
			t.Errorf("window %d has %d bytes", i, w.size)
		}
		held += w.limit - w.taken - firstWindow
	}
	if held > sharedMemory {
		t.Errorf("together they have %d bytes more than their first windows, want at most %d", held, sharedMemory)
	}
	for _, w := range windows {
		w.end()
	}
	if b.lent != 0 || b.grown != 0 {
		t.Errorf("after their end %d bytes are lent to %d", b.lent, b.grown)
	}
}

func TestOpenConnectionsTakeOfWhatAllShare(t *testing.T) {
	var b Budget
	idle := make([]*window, 512)
	for i := range idle {
		idle[i] = newWindow(&b)
	}
	w := newWindow(&b)
	if size := fill(t, w, 20); size != leastWindow {
		t.Errorf("beside %d others a window has %d bytes, want %d", len(idle), size, leastWindow)
	}
	for _, i := range idle {
		i.end()
		i.end()
	}
	if size := fill(t, w, 20); size != largestWindow {
		t.Errorf("once they have ended it has %d bytes, want %d", size, largestWindow)
	}
}

func TestBudgetIsNeverOverdrawn(t *testing.T) {
	var b Budget
	for range 100 { // each fills its window and then stops reading
		w := newWindow(&b)
		fill(t, w, 20)
		if err := w.receive(int(w.limit - w.received)); err != nil {
			t.Fatal(err)
		}
		if b.lent > sharedMemory {
			t.Fatalf("%d bytes are lent", b.lent)
		}
	}
}

func TestManyConnectionsBeginWithLess(t *testing.T) {
	var b Budget
	var first, last *window
	for range 500 {
		last = newWindow(&b)
		if first == nil {
			first = last
		}
	}
	if last.allowed() < leastWindow || last.allowed() > firstMemory/500+1 {
		t.Errorf("the last of 500 connections may be %d bytes ahead", last.allowed())
	}
	if first.allowed() != firstWindow {
		t.Errorf("the first may be %d bytes ahead, want %d", first.allowed(), firstWindow)
	}
	if size := fill(t, first, 1); size > 2*firstWindow || b.lent > sharedMemory-500*openCost {
		t.Errorf("it has %d bytes then, and %d are lent", size, b.lent)
	}
	last.end()
	if first.end(); b.lent != 0 || b.grown != 0 || b.open != 498 {
		t.Errorf("after their end %d connections have %d bytes of others", b.open, b.lent)
	}
}
