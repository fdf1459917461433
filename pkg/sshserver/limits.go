package sshserver

import "time"

// The bounds of this package, each with its reason.
const (
	// loginTime bounds the key exchange: a client on a slow line takes a second or two.
	loginTime = 30 * time.Second
	// keepAlivePeriod is how often the client is asked whether it is there, and
	// keepAliveTime how long it may take to answer: a laptop that changes its network is back
	// sooner.
	keepAlivePeriod = 30 * time.Second
	keepAliveTime   = 2 * time.Minute
	// maxChannels bounds the open channels of a connection. Each can hold 2 MiB of what the
	// client sent. A browser that uses -D has some tens, an editor fewer.
	maxChannels = 128
	// maxVariables and maxEnvironment bound what a client adds to the environment of a command,
	// the latter in bytes: far more than any SendEnv, and less than a command may have.
	maxVariables   = 128
	maxEnvironment = 64 << 10
	// maxTerm bounds the name of a terminal's type in bytes. terminfo's are a few letters.
	maxTerm = 128
	// maxModes bounds the encoded modes of a terminal: there are 256, each of five bytes.
	maxModes = 256*5 + 1
	// maxTerminal bounds the name of a terminal in bytes, so that it fits into a line of ps.
	maxTerminal = 64
	// slotTime is the span in which clients that start a terminal of the same name get the same one, since
	// they begin with the same exec id. slots bounds the exec ids that they try: each terminal of the name
	// that ended in the same span has used one.
	slotTime = 10 * time.Minute
	slots    = 100
	// waitingSignals bounds the signals of a client that the agent has yet to get. People press
	// keys; who sends more at once loses the rest.
	waitingSignals = 16
	// hangUpReach bounds how long the HUP for what a client has left may take to reach the agent:
	// a new connection to it takes a second or two. Without an answer by then, the sandbox is
	// taken for one that cannot be reached.
	hangUpReach = 10 * time.Second
	// hangUpTime is how long what a client has left may take to end after it has HUP, before it is
	// left alone.
	hangUpTime = time.Second
	// dialTime bounds how long a connection to a server in the sandbox may take to open.
	dialTime = 20 * time.Second
	// maxReason bounds the text of a refusal in bytes: a line or two.
	maxReason = 500

	// maxHandles bounds the files and directories that an sftp client has open. OpenSSH's own
	// server has 100.
	maxHandles = 100
	// readAhead is how many bytes a read fetches at once, and keptBlocks how many of such pieces
	// a file keeps, so that the small reads of clients, of which some are under way at once, cost
	// a call to the agent each 256 KiB and not each 32.
	readAhead  = 256 << 10
	keptBlocks = 4
	// maxParked bounds the bytes of a file that arrived before others that belong in front of them.
	// Clients have at most 2 MiB under way; this is the double. Each write counts parkedCost bytes
	// beside its own, for what keeping it takes, so that many small ones are bounded, too.
	maxParked  = 4 << 20
	parkedCost = 512
	// maxSpool bounds a file that is changed in place, which has to be fetched, and maxSpools how
	// many of them are open: both keep the temporary directory of this machine from filling up.
	maxSpool  = 256 << 20
	maxSpools = 8
	// toolTime bounds what the sandbox's own programs take to change a file's attributes.
	toolTime = 20 * time.Second
)
