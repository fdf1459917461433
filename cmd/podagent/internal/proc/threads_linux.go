package proc

import (
	"runtime"
	"sync"
)

// reserveThreads makes the runtime create n threads, which it then keeps for good. The
// runtime ends the program when it needs another thread and cannot get one: a fork bomb
// may use up the sandbox's limit of processes, which counts threads.
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

// threadReserve is how many threads to reserve if the sandbox may have no more than
// limit processes and threads; a limit of 0 means none.
func threadReserve(limit int64) int {
	n := spareThreads + runtime.GOMAXPROCS(0)
	if limit > 0 {
		n = min(n, int(limit/threadShare))
	}
	return n
}
