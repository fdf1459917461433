package checkout

import "time"

// The bounds of this package, each with its reason.
const (
	// maxOutput bounds what git may print to standard output, in bytes: the
	// list of a million refs.
	maxOutput = 64 << 20
	// maxMessage is how many of the last bytes of git's messages are kept: they say why
	// it failed.
	maxMessage = 4 << 10
	// maxRecord bounds the record of the last checkout, in bytes.
	maxRecord = 4 << 10
	// lockPoll is how often the lock of the directory is tried while another
	// checkout holds it.
	lockPoll = 20 * time.Millisecond
	// endDelay is how long git may take to end after its context: less than the second
	// after which the agent kills a command, so that checkout can still remove its
	// temporary files.
	endDelay = 300 * time.Millisecond
	// maxRedirects is how many redirects the relay follows: net/http's own
	// default.
	maxRedirects = 10
	// headerTimeout bounds how long git may take to send the relay the header
	// of a request: it is on this machine.
	headerTimeout = 30 * time.Second
)
