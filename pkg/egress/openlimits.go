package egress

import (
	"time"

	"github.com/podagent/podagent/pkg/egress/internal/mask"
)

// The bounds of opened TLS, each with its reason.
const (
	// maxSecrets bounds the secrets of a far end: each text that passes is searched for
	// each of them.
	maxSecrets = 64
	// minValue is the least length of a secret in bytes. Shorter ones can be guessed, and
	// occur by chance in what hosts answer.
	minValue = mask.Least
	// maxValue is the greatest length of a secret in bytes. Servers refuse longer headers:
	// most of more than 8 or 16 KiB.
	maxValue = 16 << 10
	// maxPut bounds how often secrets are put into one request: they make it longer.
	maxPut = 16
	// minSeed is the least length of Options.Seed in bytes: 128 bits can't be guessed.
	minSeed = 16

	// openHandshake bounds the handshake with the client, and that with the host: it takes
	// two round trips.
	openHandshake = 10 * time.Second
	// openHeader bounds the time of a request's header, from its first byte on.
	openHeader = 30 * time.Second
	// openIdle is how long a connection is kept without a request. Clients keep theirs for
	// about a minute.
	openIdle = 3 * time.Minute
	// openContinue is how long a body waits for the host's 100 Continue. Clients wait for
	// one second.
	openContinue = 2 * time.Second
	// maxOpenHeader bounds the header of a request, and maxAnswerHeader that of an answer,
	// in bytes: those of some hosts, with their policies, are longer than requests'.
	maxOpenHeader, maxAnswerHeader = 64 << 10, 256 << 10
	// openStreams bounds the requests at once on one HTTP/2 connection: clients open another one,
	// or wait. openConns bounds the connections to a host that speaks HTTP/1 only, for these.
	openStreams, openConns = 16, 16
	// openBuffer is how much of an answer passes at once: smaller ones cost speed.
	openBuffer = 32 << 10
	// openStreamBuffer and openConnBuffer are what a client may send by HTTP/2 before it is
	// taken, for a request and for a connection. Clients are near.
	openStreamBuffer, openConnBuffer = 64 << 10, 256 << 10
	// hostStreamBuffer and hostConnBuffer are the same for hosts, which are farther away.
	hostStreamBuffer, hostConnBuffer = 256 << 10, 512 << 10
	// mostOpened bounds the connections of clients whose TLS is opened, and mostHostConns those
	// to their hosts.
	mostOpened, mostHostConns = 128, 256
	// mostHeld bounds what the requests of all sandboxes of a process may hold, in bytes, and
	// mostHeldBySandbox those of one: about 580 and 70 requests. Each counts with its part of
	// the windows of its connections; one that is alone on its own can hold four times that.
	mostHeld, mostHeldBySandbox = 64 << 20, 8 << 20
	// mostWaiting bounds the requests of a sandbox that wait for others to end, for openWait:
	// each has a header of up to maxOpenHeader.
	mostWaiting = 64
	openWait    = 30 * time.Second
)
