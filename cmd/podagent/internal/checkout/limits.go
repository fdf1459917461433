package checkout

import "time"

// The bounds of this package, each with its reason. The agent holds what they allow, and
// others in the sandbox and at the server may try to fill it.
const (
	// maxOutput is how many bytes of git's standard output are kept: all but the list of
	// refs, which is read by lines, is a line or two.
	maxOutput = 64 << 10
	// maxMessage is how many bytes of git's messages are kept: the first ones say what
	// it refuses, the last ones why it failed. An error carries no more.
	maxMessage = 1000
	// maxLine bounds a line of the list of refs, in bytes: git's protocol sends no
	// longer ones.
	maxLine = 64 << 10
	// maxState bounds the file that save writes, in bytes.
	maxState = 4 << 10
	// maxAuthorities bounds a file of certificate authorities, in bytes: the lists of
	// distributions have some hundred kilobytes.
	maxAuthorities = 4 << 20
	// maxRefusal bounds the text with which a server refuses a request, in bytes.
	maxRefusal = 16 << 10
	// maxRelayed is how many connections the relays have at once: git uses one or two.
	maxRelayed = 64
	// maxRelayHeader bounds the header of a request to the relay, and maxServerHeader
	// that of the server's answer, in bytes.
	maxRelayHeader  = 16 << 10
	maxServerHeader = 256 << 10
	// namesAtOnce is how many names of a directory are read at once.
	namesAtOnce = 256
	// lockPoll is how often the lock of the directory is tried while another
	// checkout holds it.
	lockPoll = 20 * time.Millisecond
	// endDelay is how long git may take to end after its context ends: it only removes
	// its temporary files.
	endDelay = 300 * time.Millisecond
	// removeTimeout bounds the removal of temporary files: a large clone takes seconds.
	removeTimeout = time.Minute
	// maxRedirects is how many redirects the relay follows: net/http's own
	// default.
	maxRedirects = 10
	// headerTimeout bounds how long git may take to send the relay the header
	// of a request: it is on this machine. idleTimeout is how long it may send none.
	headerTimeout = 10 * time.Second
	idleTimeout   = time.Minute
)
