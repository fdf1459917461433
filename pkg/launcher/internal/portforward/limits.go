package portforward

import "time"

// The bounds of a port-forward, each with its reason.
const (
	// dialTimeout bounds a Dial whose context has no earlier end: two upgrades
	// and the opening of the streams take some 15 ms, and a machine that swaps
	// or a slow credential plugin some seconds.
	dialTimeout = 30 * time.Second
	// websocketRetry is for how long a server that wanted SPDY is not asked
	// for WebSocket again: it may have been updated since, and asking costs one
	// refused request.
	websocketRetry = 10 * time.Minute
	// pingPeriod is how often a ping keeps the link alive: several times
	// within the minute after which proxies cut idle links.
	pingPeriod = 10 * time.Second
	// closeLinger bounds how long the pod may take to close its side after
	// ours, and then how long the last bytes may take to leave. Nodes give the
	// pod the same second.
	closeLinger = time.Second
	// verdictWait is how long the error stream may follow the end of the data
	// stream, or the reverse. Nodes send both at once.
	verdictWait = time.Second

	// maxFrame bounds the payload of a data frame, so that with its header and
	// a message's it fills two records of TLS, with nothing left for a third.
	// The node hands on only complete frames: larger ones delay the bytes,
	// smaller ones cost more of them.
	maxFrame = 32<<10 - headerSize - messageHeader
	// messageHeader is the length of the header of a WebSocket message of up to
	// 64 KiB from a client: two bytes, two of the length, and four of the mask.
	messageHeader = 8
	// bufferSize is the length of a buffer: it holds a data frame of that size, so
	// two records of TLS, in whose parts frames come.
	bufferSize = 32 << 10
	// smallBuffer is for what a WebSocket reads of itself, the headers of messages:
	// more is read past it.
	smallBuffer = 1 << 10
	// maxControl bounds the control frames that wait to be sent, mostly
	// answers to pings; more are dropped, since the link is stuck then.
	maxControl = 4 << 10
	// numberSize is the length of the number that a control frame's payload begins
	// with.
	numberSize = 4
	// maxControlFrame bounds what follows it, in bytes, in one that the server sends:
	// real ones have three short headers.
	maxControlFrame = 64 << 10
	// maxRemoteText bounds the text of a RemoteError in bytes: nodes send a
	// line or two.
	maxRemoteText = 16 << 10
)
