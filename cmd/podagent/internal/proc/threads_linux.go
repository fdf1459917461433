package proc

import (
	"runtime"
	"sync"
)

// reserveThreads has the runtime make so many threads, which it then keeps for
// good. The runtime ends the program when it needs another thread and cannot have one:
// a fork bomb may take all of the sandbox's limit of processes, which counts threads.
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
