package agent

import "time"

// The bounds of the agent's calls, each with its reason. Those of the wire are
// podapi's, those of files and processes fsops' and proc's.
const (
	// A batch of results is as large as makes the cost of a message small
	// against theirs, well under podapi.MaxMessage, and waits no longer than a
	// person would notice.
	batchItems = 256
	batchBytes = 64 << 10
	batchDelay = 5 * time.Millisecond
	// attrBytes is about what an attribute takes beside its texts.
	attrBytes = 64
	// listedCommand bounds the bytes of a command in a list of processes:
	// enough to know it by, small against the many that there may be.
	listedCommand = 4 << 10
	// stopGrace is how long calls that are under way may take after a shutdown
	// began: an upload of some hundred megabytes, within a pod's usual grace
	// period.
	stopGrace = 5 * time.Second
	// connectTimeout is how long a caller may take from connecting to the end
	// of the handshake, so that one who says nothing is soon gone.
	connectTimeout = 20 * time.Second
)
