// Package leader chooses one of several processes for what one does for all.
//
// [Lease] chooses among those of a cluster, and [File] among those of one machine. A process that
// was stopped for a while may go on for a moment when another leads already, so what a leader does
// must be safe when two do it.
package leader

import (
	"log/slog"
	"sync"
	"time"
)

// The times of a leader, each with its reason.
const (
	// leaseDuration is how long a leader that was killed keeps others out. A leader renews its Lease
	// every retryPeriod, and stops when it could not for renewDeadline, so that it stops before
	// another begins. They are those of Kubernetes' own controllers: an API server that restarts
	// takes less.
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// releaseTime bounds what a leader that ends does for the next one.
	releaseTime = 5 * time.Second
	// lockTime is how long a try to get the lock of a file may take.
	lockTime = 50 * time.Millisecond
	// failureInterval is how often the log says that nobody can be chosen.
	failureInterval = time.Minute
)

// failures logs why nobody is chosen, now and then.
type failures struct {
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

func (f *failures) say(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.log != nil && time.Since(f.last) > failureInterval {
		f.last = time.Now()
		f.log.Error("cannot tell who leads", "error", err)
	}
}
