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
	StdinWindow = 1 << 20
	// ClientWindow is the client's HTTP/2 window, per stream and connection:
	// what is needed to fill a link of 20 ms round trip.
	ClientWindow = 16 << 20
	// AgentWindow is the agent's HTTP/2 window per stream. It is what a
	// slow disk may make the agent hold in memory, for each upload.
	AgentWindow = 512 << 10
	// KeepaliveTime and KeepaliveTimeout find out that the other side is
	// gone: well before proxies cut an idle link (60 s), and long enough for
	// a sandbox whose processors are busy.
	KeepaliveTime    = 30 * time.Second
	KeepaliveTimeout = 15 * time.Second
	// DialTimeout bounds one attempt to connect, TLS included: a port-forward
	// takes tens of milliseconds, a loaded API server seconds.
	DialTimeout = 20 * time.Second
	// KillGrace is how long Wait waits for the end of a process that it had
	// to kill, because its context ended, before it gives the stream up.
	KillGrace = 5 * time.Second
	// MaxExitStderr is how much of standard error an [ExitError] keeps when
	// the caller did not ask for it: its head and tail, as in os/exec.
	MaxExitStderr = 64 << 10
)
