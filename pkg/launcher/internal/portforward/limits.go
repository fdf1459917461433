package portforward

import "time"

// The bounds of a port-forward, each with its reason.
const (
	// dialTimeout bounds a Dial whose context has no earlier end. Two upgrades and
	// the opening of the streams take some 15 ms, but some seconds on a machine that
	// swaps, or with a slow credential plugin.
	dialTimeout = 30 * time.Second
	// websocketRetry is how long a dialer does not ask a server for WebSocket that
	// wanted SPDY. Then the server may have been updated, and asking costs only one
	// refused request.
	websocketRetry = 10 * time.Minute
	// pingPeriod is how often a ping keeps the link alive: several times
	// within the minute after which proxies cut idle links.
	pingPeriod = 10 * time.Second
	// closeLinger is how long the pod may take to close its side after ours, and then
	// how long the last bytes may take to leave. Nodes give the pod the same second.
	closeLinger = time.Second
	// streamEndWait is how long the end of one stream waits for that of the other.
	// Nodes send both at once.
	streamEndWait = time.Second

	// maxFrame bounds the payload of a data frame in bytes: with its own header and a
	// message's, it fills two records of TLS and leaves nothing for a third. The node
	// hands on only complete frames, so that larger ones would delay the bytes;
	// smaller ones cost more.
	maxFrame = 32<<10 - headerSize - messageHeader
	// messageHeader is the length of the header of a WebSocket message of up to
	// 64 KiB from a client: two bytes, two of the length, and four of the mask.
	messageHeader = 8
	// bufferSize is the length of a buffer in bytes: that of the largest data frame
	// that we send, and of two records of TLS.
	bufferSize = 32 << 10
	// headersBuffer is the length in bytes of the buffer from which a WebSocket reads
	// the headers of messages. Larger reads do not go through it.
	headersBuffer = 1 << 10
	// maxControl bounds the control frames that wait to be sent, in bytes. They are
	// mostly answers to pings. Beyond it the link is stuck, and frames are dropped.
	maxControl = 4 << 10
	// numberSize is the length of the number that a control frame's payload begins
	// with.
	numberSize = 4
	// maxControlFrame bounds the rest of that payload, in bytes. Real ones have three
	// short headers.
	maxControlFrame = 64 << 10
	// maxRemoteText bounds the text of a RemoteError in bytes: nodes send a
	// line or two.
	maxRemoteText = 16 << 10
)
