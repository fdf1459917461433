package e2b

import (
	"sync"

	"github.com/podagent/podagent/pkg/gateway"
)

// execIDs remember which process a pid was of lately, so that not each key that is pressed in a terminal
// needs a list of all processes. What they say must be checked: pids are used again. They may forget.
type execIDs struct {
	mu  sync.Mutex
	all map[pidKey]string
}

// pidKey is a pid in a sandbox.
type pidKey struct {
	tenant, sandbox string
	pid             int
}

func keyOfPID(c *gateway.Call, pid int) pidKey { return pidKey{c.Tenant(), c.Sandbox(), pid} }

func (e *execIDs) put(key pidKey, id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil || len(e.all) >= idsKept {
		e.all = map[pidKey]string{}
	}
	e.all[key] = id
}

func (e *execIDs) get(key pidKey) (id string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id, ok = e.all[key]
	return id, ok
}
