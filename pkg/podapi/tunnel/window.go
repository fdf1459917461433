package tunnel

import (
	"fmt"
	"sync"
	"syscall"
)

// Budget divides the memory of one side, for received bytes that nobody has taken yet,
// among its connections. HTTP/2 could not do it: its windows are the same for every
// stream. The zero value is ready for use.
type Budget struct {
	mu    sync.Mutex
	open  int64 // windows
	grown int   // those that are larger than the first was
	lent  int64 // by how many bytes in all
}

// resize returns the size of a window that wants so much, and what it was lent of that; before
// is what it was lent until now. The size is at least least.
func (b *Budget) resize(before, want, least int64) (size, lent int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(before, -1)
	first := max(leastWindow, min(firstWindow, firstMemory/b.open))
	shared := sharedMemory - b.open*openCost
	share := min(shared/int64(b.grown+1), shared-b.lent)
	size = max(least, first+min(max(share, 0), max(want-first, 0)))
	lent = max(size-first, 0)
	b.count(lent, +1)
	return size, lent
}

// enter counts a window in, and returns its first size.
func (b *Budget) enter() int64 {
	b.mu.Lock()
	b.open++
	b.mu.Unlock()
	size, _ := b.resize(0, 0, 0)
	return size
}

// leave counts a window out that was lent so much.
func (b *Budget) leave(lent int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(lent, -1)
	b.open--
}

func (b *Budget) count(lent int64, sign int) {
	if lent > 0 {
		b.grown += sign
		b.lent += int64(sign) * lent
	}
}

// window is how far the other side may be ahead of the receiver of its bytes.
type window struct {
	budget *Budget

	mu                     sync.Mutex
	size, lent             int64
	limit, received, taken int64 // positions
	ended                  bool
}

func newWindow(b *Budget) *window {
	size := b.enter()
	return &window{budget: b, size: size, limit: size}
}

// allowed is how far the other side may send.
func (w *window) allowed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit
}

// receive notes bytes that have come, and refuses more than was allowed.
func (w *window) receive(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.received += int64(n); w.received > w.limit {
		return fmt.Errorf("%d bytes of a connection are over the limit of %d: %w", w.received, w.limit, syscall.EINVAL)
	}
	return nil
}

// take notes bytes that are not held any more. If the other side may send a good
// deal more because of that, it returns the new limit.
func (w *window) take(n int) (limit int64, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken += int64(n)
	left := w.limit - w.taken
	if left > w.size/2 || w.ended {
		return 0, false
	}
	want := w.size
	if w.received == w.limit { // the other side waits for the window
		want = min(2*want, largestWindow)
	}
	w.size, w.lent = w.budget.resize(w.lent, want, left)
	changed = w.taken+w.size > w.limit
	w.limit = w.taken + w.size
	return w.limit, changed
}

// end gives back the window's share of the budget.
func (w *window) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.budget.leave(w.lent)
	w.ended = true
}

// allowance is what the other side's window lets this side send.
type allowance struct {
	mu      sync.Mutex
	changed sync.Cond
	limit   int64
	used    int64
	ended   bool
}

// await waits until bytes may be sent, and returns how many, at most this many;
// 0 when there is nothing to wait for any more.
func (a *allowance) await(most int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.used >= a.limit && !a.ended {
		a.changed.Wait()
	}
	if a.ended {
		return 0
	}
	return int(min(int64(most), a.limit-a.used))
}

func (a *allowance) use(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used += int64(n)
}

func (a *allowance) raise(limit int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limit = max(a.limit, limit)
	a.changed.Broadcast()
}

func (a *allowance) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.changed.Broadcast()
}
