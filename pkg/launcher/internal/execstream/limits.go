package execstream

import "time"

// The bounds of a command's streams, each with its reason.
const (
	// dialTimeout bounds a Dial whose context has no earlier end: two upgrades
	// take some 15 ms each, and a machine that swaps or a slow credential plugin
	// some seconds.
	dialTimeout = 30 * time.Second
	// closeLinger is how long a command may take to end after its standard input has
	// ended: it has little left to write, and nobody reads it.
	closeLinger = 2 * time.Second
	// maxStderr bounds how many bytes of standard error are kept: a command that
	// fails says so in a line or two.
	maxStderr = 4 << 10
	// protocols is how many requests one Dial may make: WebSocket and SPDY.
	protocols = 2
)
