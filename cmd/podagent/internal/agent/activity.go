package agent

import (
	"sync"
	"time"
)

// activity knows how long the agent has had no call.
type activity struct {
	mu      sync.Mutex
	calls   int
	lastEnd time.Time
}

// begin notes a call, and returns the function that notes its end.
func (a *activity) begin() (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.calls--
		a.lastEnd = time.Now()
	}
}

// touch notes work that is no call.
func (a *activity) touch() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastEnd = time.Now()
}

// idleSince returns when the last call ended, and whether none is under way.
func (a *activity) idleSince() (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lastEnd, a.calls == 0
}
