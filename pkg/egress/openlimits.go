package egress

import "time"

// The bounds of opened TLS, each with its reason.
const (
	// maxSecrets bounds the secrets of a far end: each text that passes is searched for
	// each of them.
	maxSecrets = 64
	// minValue is the least length of a secret in bytes. Shorter ones can be guessed, and
	// occur by chance in what hosts answer.
	minValue = 8
	// maxValue is the greatest length of a secret in bytes. Servers refuse longer headers:
	// most of more than 8 or 16 KiB.
	maxValue = 16 << 10
	// maxPut bounds how often secrets are put into one request: they make it longer.
	maxPut = 16
	// minSeed is the least length of Options.Seed in bytes: 128 bits can't be guessed.
	minSeed = 16

	// leafLife is how long a certificate of a host is valid, and leafRenewal how long
	// before its end another one is made.
	leafLife, leafRenewal = 24 * time.Hour, 12 * time.Hour
	// leafSkew is how far the sandbox's clock may be behind.
	leafSkew = 24 * time.Hour
	// maxLeaves bounds the certificates that are kept: a wildcard has any number of hosts.
	maxLeaves = 256

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
	// openStreams bounds the requests at once on one HTTP/2 connection (RFC 9113 advises at
	// least 100), and openConns the connections to a host that speaks HTTP/1 only, for these.
	openStreams, openConns = 100, 16
	// openStreamBuffer and openConnBuffer are what HTTP/2 may send before it is taken, for
	// a request and for a connection, in each direction.
	openStreamBuffer, openConnBuffer = 256 << 10, 1 << 20
	// mostOpened bounds the connections of clients whose TLS is opened, and mostHostConns those
	// to their hosts. Together with the buffers they bound the memory, 256 MiB, that a hostile
	// sandbox can take by not reading.
	mostOpened, mostHostConns = 128, 256
	// maskPiece is how much of an answer is searched at once, in bytes, or more for long secrets.
	maskPiece = 4 << 10
	// maskStep rounds what is held back, so that it does not show a secret's length.
	maskStep = 64
)
