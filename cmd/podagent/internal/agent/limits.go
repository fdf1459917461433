package agent

import "time"

// The bounds of the agent's calls, each with its reason. Those of the wire are
// podapi/wire's, those of files and processes fsops' and proc's.
const (
	// A batch of results is as large as makes the cost of a message small
	// against theirs, well under wire.MaxMessage, and waits no longer than a
	// person would notice.
	batchItems = 256
	batchBytes = 64 << 10
	batchDelay = 5 * time.Millisecond
	// watchDelay is how long a watch's event waits for others. They come
	// together, because they have waited before.
	watchDelay = time.Millisecond
	// attrBytes is about what an attribute takes beside its texts.
	attrBytes = 64
	// listedCommand bounds the bytes of a command in a list of processes:
	// enough to know it by, small against the many that there may be.
	listedCommand = 4 << 10
	// uploadMemory is what all uploads under way may make the agent hold because
	// the disk is slower than they are: the whole window for six of them, and
	// 768 KiB each for 64. A disk that is stuck, and then goes on, makes an agent
	// with 64 uploads as large as 110 MiB, of the 128 that it may have.
	uploadMemory = 48 << 20
	// maxConnections is how many connections to ports may be open at once: more
	// than browsers and load generators use, of which each takes two descriptors
	// with the server's, some stacks and a first window. With what they share that
	// is 64 MiB when all of them are stuck.
	maxConnections = 512
	// callWorkers is how many goroutines wait for calls, of which most then find a
	// stack that has grown; a call that finds none gets one of its own. It is for
	// the short ones, of which few run at once.
	callWorkers = 16
	// stopGrace is how long calls that are under way may take after a shutdown
	// began: an upload of some hundred megabytes, within a pod's usual grace
	// period.
	stopGrace = 5 * time.Second
	// detachDrain is how long a caller who detaches waits for the process to
	// take the standard input that was sent before: at once if it reads it, and
	// else perhaps never.
	detachDrain = time.Second
	// connectTimeout is how long a caller may take from connecting to the end
	// of the handshake, so that a silent caller is dropped soon.
	connectTimeout = 20 * time.Second
	// restDelay is how long there is no call before memory is given back, which
	// takes some milliseconds: longer than people and programs pause in their work.
	restDelay = 5 * time.Second
	// lifePoll is how often at least it is looked whether the agent is idle for
	// too long, or expires: no limit of either is much shorter.
	lifePoll = time.Second
	// joinTimeout bounds the connection of [Join] to an agent in the same pod,
	// and closeGrace how long the agent may take to close it when it gets no more:
	// both take it less than a millisecond, unless its processors are busy.
	joinTimeout = 5 * time.Second
	closeGrace  = 2 * time.Second
	// joinBuffer is how many bytes Join copies at once: what a pipe holds.
	joinBuffer = 64 << 10
)
