package agent

import (
	"runtime"
	"runtime/debug"
	"time"
)

// rest gives the system back what memory is left over from work, once there has
// been none for a while: the runtime itself would keep some until it next collects
// garbage, which is when there is work again or after minutes. Only [Agent.awaitEnd]
// calls it.
func (a *Agent) rest() {
	last, idle := a.activity.idleSince()
	if idle && last != a.rested && time.Since(last) >= restDelay {
		a.rested = last
		runtime.GC() // pooled objects outlive one collection
		debug.FreeOSMemory()
	}
}
