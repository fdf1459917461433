package egress

import "time"

// The bounds of one sandbox's proxy.
const (
	// mostConnections may be open at once.
	mostConnections = 512
	// mostTurnedAway of those beyond get an answer at once, the others a reset.
	mostTurnedAway = 32
	// copyBuffer is how much of a moving direction's bytes is in the proxy, beside what the
	// kernel and the tunnel hold: a message of the tunnel, since more and smaller ones
	// cost speed.
	copyBuffer = 64 << 10
	// idleBuffer is for a direction in which little comes at once.
	idleBuffer = 2 << 10
	// largestHeader bounds the headers of a request and of an answer.
	largestHeader = 64 << 10
	// headerTime is for a request's headers, for a SOCKS5 handshake, and for a TLS hello
	// that has begun.
	headerTime = 10 * time.Second
	// idleTime ends connections of plain HTTP that wait for another request.
	idleTime = 2 * time.Minute
	// connectTime is for resolving a name and reaching one of its addresses.
	connectTime = 10 * time.Second
	// mostAddresses of a name are tried, each nextAddress after the one before, or when
	// that has failed.
	mostAddresses = 8
	nextAddress   = 300 * time.Millisecond
	// goneTime is for what a program has sent to reach the host after the program is gone.
	goneTime = 10 * time.Second
	// goodbyeTime is for a client to take the answer before its connection closes.
	goodbyeTime = time.Second
)
