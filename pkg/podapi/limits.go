package podapi

import "time"

// The bounds of the wire and of the client, each with its reason.
const (
	// MaxMessage bounds a gRPC message in bytes: gRPC's own default, which
	// other languages' clients expect.
	MaxMessage = 4 << 20
	// ChunkSize is how many bytes of content travel in a message: the size
	// from which streams are no longer bound by the cost of messages.
	ChunkSize = 256 << 10
	// StdinWindow is how many bytes of standard input may be on their way,
	// not yet taken by the process. It bounds what the agent buffers.
	StdinWindow = 256 << 10
	// ClientWindow is the HTTP/2 window of the client, per stream and
	// connection, and of the agent's connections: what is needed to fill a
	// link of 20 ms round trip.
	ClientWindow = 16 << 20
	// WriteBuffer is how many bytes of HTTP/2 the client writes at once: as
	// many as, in two records of TLS with 22 bytes around each, fill a frame of
	// a port-forward, which with its header fills two records of the API
	// server's TLS.
	WriteBuffer = 32<<10 - 60
	// AgentWriteBuffer is how many bytes of HTTP/2 the agent writes at once:
	// several of the reads of 32 KiB by which nodes make frames of them.
	AgentWriteBuffer = 128 << 10
	// ReadBuffer is how many bytes of HTTP/2 both sides read at once from a
	// connection without TLS: several frames.
	ReadBuffer = 64 << 10
	// AgentWindow is the agent's HTTP/2 window per stream, and so how many bytes
	// one upload may be ahead of the disk: by a port-forward 1 MiB makes an
	// upload half as fast as 8 MiB, from which on the link is the bound. What all
	// uploads together hold in the agent's memory is bound by UploadAck.
	AgentWindow = 8 << 20
	// UploadWindow is how many bytes of content an upload may send before the
	// agent's first ack, which is what it may have under way at the least: two
	// chunks, so that one is on its way while another is written.
	UploadWindow = 2 * ChunkSize
	// KeepaliveTime and KeepaliveTimeout find out that the other side is
	// gone: well before proxies cut an idle link (60 s), and long enough for
	// a sandbox whose processors are busy.
	KeepaliveTime    = 30 * time.Second
	KeepaliveTimeout = 15 * time.Second
	// DialTimeout bounds one attempt to connect, TLS included: a port-forward
	// takes tens of milliseconds, a loaded API server seconds.
	DialTimeout = 20 * time.Second
	// maxErrorText bounds each text of an error in bytes: many clients take
	// headers of 8 KiB in all.
	maxErrorText = 1 << 10
	// maxReserve bounds the memory that ReadFile reserves because of what the
	// agent says that the size is, before the bytes arrive.
	maxReserve = 1 << 30
	// stdinChunk is how much standard input travels in a message: what a pipe
	// holds by default, so that one message can be taken at once.
	stdinChunk = 64 << 10
	// outputBuffer is how much output of a stream the client holds for a
	// writer that is slow, before it stops taking more: several times what a
	// pipe holds, so that programs which rely on that work here, too.
	outputBuffer = 256 << 10
	// KillGrace is how long a run goes on, at the most, after the caller has detached,
	// or after its context has ended and the process is to be killed: longer than an
	// agent on a busy node takes to answer.
	KillGrace = 5 * time.Second
	// killLinger is for how long the client tries to have a process killed that nobody
	// wants any more: most cuts are over in less, and nobody waits for it.
	killLinger = time.Minute
	// DefaultResumeTimeout is how long after a cut a command's connection is
	// sought, unless it is said otherwise: an API server that restarts takes
	// half a minute, a node's network may be away for longer, and nobody waits
	// more for what may never come.
	DefaultResumeTimeout = 2 * time.Minute
	// resumeFirst and resumeLast bound the time between tries to go on after a
	// cut, which doubles: a connection that broke is back after a round trip,
	// and a try costs nothing but one where the connection is there. The first
	// try of all does not wait.
	resumeFirst = 20 * time.Millisecond
	resumeLast  = time.Second
	// startTries bounds how often a start is made that finds another agent than
	// it was for: an agent does not restart twice within a call.
	startTries = 3
	// lostTimeout bounds the question why an agent was lost: a node says how a
	// container ended within a second or two, on a loaded one a few more.
	lostTimeout = 10 * time.Second
	// detachDrain is how long a caller that detaches waits until the standard
	// input that it was given has been sent: what was typed before.
	detachDrain = time.Second
	// MaxExitStderr is how much of standard error an [ExitError] keeps when
	// the caller did not ask for it: its head and tail, as in os/exec.
	MaxExitStderr = 64 << 10
	// closeWait is how long [PortConn.Close] waits until the server's side has what
	// was written: it takes a round trip, if the server reads.
	closeWait = 2 * time.Second
	// closeLinger is how long it is tried after that, while the client is open:
	// what is under way takes no longer by a link that works.
	closeLinger = time.Minute
	// acceptPause is how long [Client.Forward] waits when there are no descriptors
	// for a connection: until some have been closed.
	acceptPause = 100 * time.Millisecond
)
