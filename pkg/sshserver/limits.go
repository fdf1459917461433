package sshserver

import "time"

// The bounds of this package, each with its reason.
const (
	// loginTime bounds the key exchange: a client on a slow line takes a second or two.
	loginTime = 30 * time.Second
	// RefusalTime is how long a client that is not served has to learn why: it soon opens a session.
	RefusalTime = 5 * time.Second
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
	// maxMessage is the longest message of sftp that package sftp takes, in bytes. maxRead and maxWrite are the longest
	// pieces of files that clients are told to ask for and to send at once: fewer messages cost less. A
	// piece with what is around it fills whole packets of SSH, of 32 KiB.
	maxMessage = 256 << 10
	maxRead    = 128<<10 - 13
	maxWrite   = 128 << 10
	// readAhead is the size of the blocks in which files are fetched, in bytes. A file that is read from the
	// beginning to the end comes as one stream, which is blocksAhead in front of the client. Clients have
	// some reads under way at once, of which package sftp serves eight, so keptBlocks stay for them. longestStretch
	// is how many blocks come by one call: that many can wait in memory for a client that reads no more.
	readAhead      = 256 << 10
	blocksAhead    = 2
	keptBlocks     = 8
	longestStretch = 16
	// maxAhead bounds what all files of a connection have of such blocks: five files at full speed. More are read more
	// slowly. idleTime is how long a file that nobody reads keeps its own: a client that reads on after that
	// has paused anyway.
	maxAhead = 32 << 20
	idleTime = 5 * time.Second
	// maxFetches bounds the calls that fetch blocks of an open file at once: with an agent that answers, a few more
	// than keptBlocks.
	maxFetches = 32
	// maxParked bounds the bytes of a file that arrived before others that belong in front of them.
	// OpenSSH's clients have 64 writes under way. Each write counts parkedCost bytes
	// beside its own, for what keeping it takes, so that many small ones are bounded, too.
	maxParked  = 64 * (maxWrite + parkedCost)
	parkedCost = 1 << 10
	// maxMemory bounds what all files of a connection have parked: four files that each have as much as they may.
	// Some writes arrive out of order with any client, but those are few.
	maxMemory = 4 * maxParked
	// maxSpool bounds a file that is changed in place, which has to be fetched, and maxSpools how
	// many of them are open: both keep the temporary directory of this machine from filling up.
	maxSpool  = 256 << 20
	maxSpools = 8
	// toolTime bounds what the sandbox's own programs take to change a file's attributes.
	toolTime = 20 * time.Second
)
