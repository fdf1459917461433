package agent

import (
	"runtime"
	"runtime/debug"
	"time"
)

// rest gives unused memory back to the system once the agent has had no work for a
// while. The runtime would keep some of it until it next collects garbage: when there is
// work again, or after minutes. The pages of the program are most of what is left: see dropProgram. Only [Agent.awaitEnd] calls rest.
func (a *Agent) rest() {
	last, idle := a.activity.idleSince()
	if idle && last != a.rested && time.Since(last) >= restDelay {
		a.rested = last
		runtime.GC() // pooled objects outlive one collection
		debug.FreeOSMemory()
		dropProgram()
	}
}
