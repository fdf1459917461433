package podapi

import "time"

// The bounds that callers notice.
const (
	// DefaultResumeTimeout is how long a command seeks a connection after a cut: an
	// API server restarts in half a minute, a node's network may take longer.
	DefaultResumeTimeout = 2 * time.Minute
	// KillGrace is how long a command waits for the end of a process that it killed
	// because its context ended, or for the answer to a detach.
	KillGrace = 5 * time.Second
	// MaxExitStderr is how many bytes of standard error an [ExitError] keeps: head
	// and tail, as in os/exec.
	MaxExitStderr = 64 << 10
)

// The bounds on memory, in bytes.
const (
	// outputBuffer is how much output of a stream the client holds for a slow
	// writer, before it takes no more: several times what a pipe holds, so that
	// programs which rely on a pipe's room work here, too.
	outputBuffer = 256 << 10
	// stdinChunk is how much standard input travels in a message: what a pipe
	// holds by default, so that the process can take a message at once.
	stdinChunk = 64 << 10
	// maxSkippedPath bounds the path of a file that was skipped: Linux's PATH_MAX.
	maxSkippedPath = 4 << 10
	// maxReserve bounds what ReadFile reserves on the agent's word for the size,
	// before the bytes arrive.
	maxReserve = 1 << 30
)

// The bounds on tries and waits.
const (
	// killLinger is how long the client tries to have a process killed that nobody
	// wants any more: most cuts are over in less, and nobody waits for it.
	killLinger = time.Minute
	// resumeFirst and resumeLast bound the time between tries to go on after a
	// cut. It doubles: a connection that broke is back after a round trip, and a
	// try costs little. The first try does not wait.
	resumeFirst = 20 * time.Millisecond
	resumeLast  = time.Second
	// startTries bounds how often a start is made anew because it found another
	// agent than it was for: an agent does not restart twice within a call.
	startTries = 3
	// lostTimeout bounds the question why an agent was lost. A node says how a
	// container ended within a second or two, a loaded one a few later.
	lostTimeout = 10 * time.Second
	// detachDrain is how long a detach waits until the standard input that the
	// caller has given is sent: what a person typed before.
	detachDrain = time.Second
	// closeWait is how long the Close of a connection to a port waits until the server's side has
	// what was written: a round trip, if the server reads.
	closeWait = 2 * time.Second
	// closeLinger is how long the client goes on with it after that, while it is
	// open: over a link that works, what is under way takes no longer.
	closeLinger = time.Minute
	// acceptPause is how long [Client.Forward] waits when there are no descriptors
	// for a connection: until some have been closed.
	acceptPause = 100 * time.Millisecond
)
