package podapi

import (
	"math"
	"time"
)

// The bounds that callers notice.
const (
	// DefaultResumeTimeout is how long a command tries to connect after a cut: an API
	// server restarts in half a minute, a node's network may take longer.
	DefaultResumeTimeout = 2 * time.Minute
	// KillGrace is how long a command waits for the end of a process that it killed
	// because its context ended, or for the answer to a detach.
	KillGrace = 5 * time.Second
	// MaxExitStderr is how many bytes of standard error an [ExitError] keeps: head and tail.
	MaxExitStderr = 64 << 10
	// Unlimited is the value of an [Rlimit] that limits nothing.
	Unlimited uint64 = math.MaxUint64
)

// The bounds on memory, in bytes.
const (
	// outputBuffer is how much output of a stream the client holds for a slow writer:
	// several times what a pipe holds, so that programs which rely on a pipe's room
	// work here, too.
	outputBuffer = 256 << 10
	// stdinChunk is how much standard input travels in a message: what a pipe
	// holds by default, so that the process can take a message at once.
	stdinChunk = 64 << 10
	// stdinFirst is how much of it is read at first: what a person types at once needs no more.
	stdinFirst = 4 << 10
	// maxSkippedPath bounds the path of a file that was skipped: Linux's PATH_MAX.
	maxSkippedPath = 4 << 10
	// maxReserve bounds what ReadFile reserves on the agent's word for the size,
	// before the bytes arrive.
	maxReserve = 16 << 20
	// maxGrowth, and the file's size once more, is by how much a file may have grown
	// while it was read to its end: files of /proc say that they are empty.
	maxGrowth = 16 << 20
	// maxEntries, maxProcesses and maxListTexts bound what a list of a directory or of
	// processes holds, in numbers and in bytes of texts: about 100 MiB, and as much
	// again until the garbage is collected.
	maxEntries   = 1 << 18
	maxProcesses = 1 << 16
	maxListTexts = 32 << 20
	// maxPorts, maxPortAddresses and maxProcessName bound a list of ports, as the contract does.
	maxPorts         = 1000
	maxPortAddresses = 8
	maxProcessName   = 64
)

// The bounds on answers. Agents that keep the contract stay far below them.
const (
	// maxHeaders bounds the headers and trailers of an answer, and so an error: several
	// times what the largest error of an agent takes.
	maxHeaders = 128 << 10
	// idleTime is how long a connection may be without a call until it is closed. It takes memory
	// at each end and in between, and to make it anew some milliseconds.
	idleTime = time.Minute
	// maxIdleMessages bounds the messages of an answer that bring nothing.
	maxIdleMessages = 1 << 16
	// maxSkipped bounds the results of an answer that the caller does not get.
	maxSkipped = 1 << 20
	// maxNumber bounds counts, sizes and offsets, so that a few of them can be added
	// up.
	maxNumber = 1 << 60
	// maxPath bounds a path: many times Linux's PATH_MAX, which is only about the
	// paths of one system call.
	maxPath = 64 << 10
	// maxText bounds ids, versions and the like.
	maxText = 256
	// maxProtected and maxCapabilities bound the lists that an agent sends about itself.
	// maxCapabilities also bounds that of confinements.
	maxProtected    = 4096
	maxCapabilities = 256
	// maxKeychain bounds the text of a keychain: 64 links of 8 keys have some 35 KiB.
	maxKeychain = 64 << 10
	// maxCommand bounds the command in a list of processes: the 4 KiB of the contract.
	maxCommand = 4 << 10
	// maxGrepLine bounds the text of a line that was found, where the caller does not.
	maxGrepLine = 4 << 10
	// maxCheckpoints bounds a list of checkpoints: a store keeps 1000, but others may write to it. maxDifferences
	// and maxDiffBytes bound an answer about how they differ: the 8 MiB of the contract, and some more.
	maxCheckpoints = 1 << 16
	maxDifferences = 1 << 18
	maxDiffBytes   = 16 << 20
	// maxTreePath bounds a path in a checkpoint, which is up to 400 directories deep.
	maxTreePath = 128 << 10
	// maxWhy bounds why a path was left as it is.
	maxWhy = 4 << 10
	// maxDiff bounds the diff of an edit, as the contract does.
	maxDiff = 1 << 20
)

// The bounds on tries and waits.
const (
	// killLinger is how long the client tries to have a process killed that is no
	// longer needed: most cuts are shorter, and nobody waits for it.
	killLinger = time.Minute
	// resumeFirst and resumeLast bound the time between tries to reconnect after a
	// cut. It doubles: a broken connection is back after a round trip, and a try
	// costs little. The first try does not wait.
	resumeFirst = 20 * time.Millisecond
	resumeLast  = time.Second
	// startTries bounds how often a start is repeated because another agent answered
	// than the expected one: an agent does not restart twice within a call.
	startTries = 3
	// checkoutTries is how often a checkout is tried whose connection is cut. One may be
	// cut by accident, and each try begins anew.
	checkoutTries = 3
	// copyTries is how often a copy of a checkpoint is tried whose connection is cut. Each try sends only what has
	// not arrived yet.
	copyTries = 3
	// lostTimeout bounds the question why an agent was lost. A node reports how a
	// container ended within a second or two, a loaded node a few later.
	lostTimeout = 10 * time.Second
	// timeoutGrace is the least time after a command's timeout in which the agent has to
	// say how the command ended.
	timeoutGrace = 10 * time.Second
	// detachDrain is how long a detach waits until the standard input given so far is
	// sent, such as what a person has typed.
	detachDrain = time.Second
	// closeWait is how long closing a connection to a port waits until the server's
	// side has what was written: a round trip, if the server reads.
	closeWait = 2 * time.Second
	// closeLinger is how long the client continues in the background after that,
	// while it is open: over a working link, data under way needs no longer.
	closeLinger = time.Minute
	// acceptPause is how long [Client.Forward] waits when no descriptors are left for
	// a connection, until some have been closed.
	acceptPause = 100 * time.Millisecond
)
