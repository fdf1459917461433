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
	grown int   // those that are larger than the first
	lent  int64 // by how many bytes in all
}

// resize returns the new size of a window that has this size and wants another. It is
// at least least.
func (b *Budget) resize(size, want, least int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count(size, -1)
	shared := sharedMemory - b.open*openCost
	share := min(shared/int64(b.grown+1), shared-b.lent)
	size = max(least, firstWindow+min(max(share, 0), want-firstWindow))
	b.count(size, +1)
	return size
}

// add counts windows.
func (b *Budget) add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += n
}

func (b *Budget) count(size int64, sign int) {
	if size > firstWindow {
		b.grown += sign
		b.lent += int64(sign) * (size - firstWindow)
	}
}

// window is how far the other side may be ahead of the receiver of its bytes.
type window struct {
	budget *Budget

	mu                     sync.Mutex
	size                   int64
	limit, received, taken int64 // positions
	ended                  bool
}

func newWindow(b *Budget) *window {
	b.add(+1)
	return &window{budget: b, size: firstWindow, limit: firstWindow}
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
	w.size = w.budget.resize(w.size, want, left)
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
	w.size = w.budget.resize(w.size, firstWindow, 0)
	w.budget.add(-1)
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
