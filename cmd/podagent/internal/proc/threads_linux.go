package proc

import (
	"runtime"
	"sync"
)

// reserveThreads has the runtime make so many threads, which it then keeps for
// good. It ends the program when it needs one more and there is none to have,
// as when a fork bomb in the sandbox holds its limit of processes: threads
// count there too.
func reserveThreads(n int) {
	var ready, over sync.WaitGroup
	ready.Add(n)
	release := make(chan struct{})
	for range n {
		over.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	over.Wait()
}

// threadReserve is how many threads to reserve where no more than limit
// processes and threads may be; 0 means that there is no limit.
func threadReserve(limit int64) int {
	n := spareThreads + runtime.GOMAXPROCS(0)
	if limit > 0 {
		n = min(n, int(limit/threadShare))
	}
	return n
}
