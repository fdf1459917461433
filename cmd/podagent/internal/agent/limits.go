package agent

import "time"

// The bounds of the agent's calls, each with its reason. Those of the wire are
// podapi/wire's, those of files and processes fsops' and proc's.
const (
	// A batch of results is so large that the cost of its message is small, and well
	// under wire.MaxMessage. It waits no longer than a person would notice.
	batchItems = 256
	batchBytes = 64 << 10
	batchDelay = 5 * time.Millisecond
	// watchDelay is how long a watch's event waits for others. They come
	// together, because they have waited before.
	watchDelay = time.Millisecond
	// attrBytes is about the size of an attribute without its texts.
	attrBytes = 64
	// listedCommand bounds the bytes of a command in a list of processes: enough to
	// recognize it, and small, since a list may have many.
	listedCommand = 4 << 10
	// uploadMemory bounds the bytes that the agent holds for all uploads under way when
	// the disk is slower than they are: the whole window for six of them, and 768 KiB
	// each for 64. With 64 uploads and a disk that gets stuck and then goes on, the
	// agent takes up to 110 MiB of the 128 that it may have.
	uploadMemory = 48 << 20
	// maxConnections is how many connections to ports may be open at once: more than
	// browsers and load generators use. Each takes two descriptors, including the
	// server's, some stacks and a first window. If all of them are stuck, that is
	// 64 MiB with the memory that they share.
	maxConnections = 512
	// maxProcessName bounds the name of a process that listens at a port, as the contract does, in bytes.
	maxProcessName = 64
	// The agent looks each presencePeriod whether the program at the other end of a connection is
	// there. When it is not, others may take what it sent before, as long as they take something
	// in mostStalls periods.
	presencePeriod = 5 * time.Second
	mostStalls     = 12
	// callWorkers is how many goroutines wait for calls, so that most calls get a stack
	// that has grown already. A call that finds none free gets a new goroutine. It is
	// for short calls, of which few run at once.
	callWorkers = 16
	// A connection pauses after a write of less than gatherBytes while gatherLeast commands
	// or more are being started, by one gatherStep for each gatherShare of them, and
	// gatherSteps at most; it ends after gatherIdle steps in which no start has ended. Two
	// busy processors end a few short commands in a step, which is the shortest time that
	// the runtime waits for.
	gatherBytes = 4 << 10
	gatherLeast = 4
	gatherShare = 2
	gatherSteps = 24
	gatherIdle  = 4
	gatherStep  = time.Millisecond
	// A list of globs or paths for a checkpoint has maxListed texts of maxListedBytes at most: each file is compared
	// with each of them.
	maxListed      = 1000
	maxListedBytes = 64 << 10
	// maxLeftBytes bounds each list of paths in an answer about a checkpoint, so that its lists fit into one message.
	maxLeftBytes = 1 << 20
	// maxName bounds the name of a checkpoint, as the contract does, maxWhy why a path was left as it is, and maxCount
	// what callers believe of a number.
	maxName  = 200
	maxWhy   = 1 << 10
	maxCount = 1 << 60
	// maxTransfers is how many checkpoints are sent at a time, and how many received.
	maxTransfers = 8
	// transferIdle is how long a transfer waits for its peer: longer than an agent is busy with a checkpoint or a
	// restore of a large tree before it takes the next part.
	transferIdle = 10 * time.Minute
	// commitTries is how often a checkpoint that was received is tried to be made one of the store: what went meanwhile,
	// since there was no room for another one, is asked for again.
	commitTries = 3
	// maxDiffAnswer bounds what an answer about differences holds, since it waits in memory.
	maxDiffAnswer = 8 << 20
	// diskWait is how long Stats waits for the file system of the workdir: more than any
	// network takes whose server answers.
	diskWait = time.Second
	// maxDisk is more than any file system has, in bytes or inodes.
	maxDisk = 1 << 62
	// stopGrace is how long calls that are under way may take after a shutdown
	// began: an upload of some hundred megabytes, within a pod's usual grace
	// period.
	stopGrace = 5 * time.Second
	// detachDrain is how long a caller who detaches waits for the process to take the
	// standard input that was sent before. A process that reads takes it at once;
	// another may never.
	detachDrain = time.Second
	// handoverGrace is how long calls may go on once their key no longer counts. Then they
	// are cut, and clients with another key resume those that can be resumed.
	handoverGrace = time.Minute
	// connectTimeout is how long a caller may take from connecting to the end of the
	// handshake, which is three round trips, and takes some milliseconds of a
	// processor: a silent caller is dropped soon, and a distant one with busy
	// processors is not.
	connectTimeout = 10 * time.Second
	// maxStrangers bounds the connections in their handshake, each of which takes some
	// 30 KiB. If nobody has more than a share of them and others wait, an average one
	// lasts for strangerPatience: several times what a handshake takes at a latency of
	// 300 ms.
	maxStrangers     = 256
	strangerPatience = 2 * time.Second
	// maxKnown bounds the connections of callers who hold a key: an orchestrator has one,
	// and each of its commands in a terminal another. Each takes some 60 KiB.
	maxKnown = 256
	// Callers that ask for the health do not show a key. A check has less than a hundred
	// bytes and takes a millisecond, so each caller gets little, and for a short time.
	// A connection is dropped for a newer one after healthCallers others have come: even
	// if these come as fast as they can, a check has some milliseconds.
	healthCallers = 128
	healthCalls   = 4
	healthBytes   = 4 << 10
	healthTimeout = 2 * time.Second
	healthAge     = 10 * time.Second
	// CheckHealth connects healthTries times, healthPause apart, if it is dropped: less
	// time than a node gives a probe.
	healthTries = 20
	healthPause = 20 * time.Millisecond
	// restDelay is the time without a call after which memory is given back, which takes
	// some milliseconds: longer than people and programs pause in their work.
	restDelay = 5 * time.Second
	// strayDelay is the time without a call or a process before the agent looks for strays,
	// which takes some milliseconds: well below any limit of the idle time.
	strayDelay = 2 * time.Second
	// lifePoll is the longest time between two checks of whether the agent has been idle
	// for too long or has expired: no limit of either is much shorter.
	lifePoll = time.Second
	// joinTimeout bounds how long [Join] connects to an agent in the same pod, and
	// closeGrace how long the agent may take to close the connection when it gets no
	// more: both take less than a millisecond, unless the processors are busy.
	joinTimeout = 5 * time.Second
	closeGrace  = 2 * time.Second
	// joinBuffer is how many bytes Join copies at once: what a pipe holds.
	joinBuffer = 64 << 10
)
