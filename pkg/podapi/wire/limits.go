package wire

import "time"

// The bounds on what a connection carries and holds, in bytes. Authors of other
// clients need the first four.
const (
	// MaxMessage bounds a gRPC message: gRPC's own default, which other
	// languages' clients expect.
	MaxMessage = 4 << 20
	// ChunkSize is how much content a message carries. From this size on, the cost of
	// messages no longer limits a stream.
	ChunkSize = 256 << 10
	// StdinWindow is how much standard input may be on its way, not yet taken by
	// the process. It bounds what the agent buffers.
	StdinWindow = 256 << 10
	// UploadWindow is how much content an upload may send before the agent's
	// first ack, and the least that it may have under way: two chunks, so that
	// one is on its way while another is written.
	UploadWindow = 2 * ChunkSize
	// AgentWindow is the agent's HTTP/2 window per stream, and so how far an upload
	// may be ahead of the disk. Through a port-forward, an upload with 1 MiB is half
	// as fast as with 8 MiB; beyond that the link is the limit. UploadAck bounds what
	// all uploads together hold in the agent's memory.
	AgentWindow = 8 << 20
	// ClientWindow is the HTTP/2 window of the client, per stream and per
	// connection, and of the agent per connection: what it takes to fill a link
	// of 20 ms round trip.
	ClientWindow = 16 << 20
	// ClientWriteBuffer is how much HTTP/2 the client writes at once. Then two TLS
	// records, with 22 bytes around each, fill a frame of a port-forward, and the
	// frame with its header fills two records of the API server's TLS.
	ClientWriteBuffer = 32<<10 - 60
	// AgentWriteBuffer is how much HTTP/2 the agent writes at once: several of the 32
	// KiB reads that nodes turn into frames.
	AgentWriteBuffer = 128 << 10
	// ReadBuffer is how much HTTP/2 both ends read at once from a connection
	// without TLS: several frames.
	ReadBuffer = 64 << 10
	// maxElements bounds the fields of what an agent sends, those of its parts included. An
	// empty part takes two bytes in the message, and a hundred times as much in
	// memory. An agent's largest batch has some ten thousand.
	maxElements = 64 << 10
	// maxErrorText bounds each text of an error: many clients take headers of
	// 8 KiB in all.
	maxErrorText = 1 << 10
)

// The times of a connection.
const (
	// KeepaliveTime and KeepaliveTimeout detect that the other end is gone: well
	// before proxies cut an idle link (60 s), but slowly enough for a sandbox with
	// busy processors.
	KeepaliveTime    = 30 * time.Second
	KeepaliveTimeout = 15 * time.Second
	// DialTimeout bounds one attempt to connect, TLS included. A port-forward
	// takes tens of milliseconds, a loaded API server seconds.
	DialTimeout = 20 * time.Second
)
