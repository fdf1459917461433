package gateway

import "time"

// The bounds of what the gateway holds and answers, each with its reason.
const (
	// bodyLimit is how large a JSON body may be, in bytes: a script of a megabyte in base64, and
	// what surrounds it.
	bodyLimit = 16 << 20
	// execOutputLimit is how much of each output an answer has, from its end, in bytes. The rest
	// can be read as the process's output.
	execOutputLimit = 4 << 20
	// listLimit is how many entries of a directory an answer has.
	listLimit = 10_000
	// labelLimit is how many labels a list can be filtered by: no sandbox has more.
	labelLimit = 64
	// heldFor is how long a sandbox stays open after its last use. Its connection ends a minute
	// after its last call in any case.
	heldFor = 10 * time.Minute
	// silence is how long a stream of events is silent: proxies close those of a minute.
	silence = 15 * time.Second
	// keptConns and keptFor bound the connections to a server in a sandbox that wait for another
	// request. Each keeps the sandbox's own connection from ending, so they are kept for less
	// than the minute after which that one ends.
	keptConns = 16
	keptFor   = 15 * time.Second
	// answerHeaderLimit is how large the header of a server's answer may be, in bytes: what browsers
	// take. informLimit is how many informational answers (1xx) may come before it.
	answerHeaderLimit = 256 << 10
	informLimit       = 32
	// continueTime is how long a server may take to ask for a body that the client holds back
	// (Expect: 100-continue). Then it is sent all the same, as curl does.
	continueTime = time.Second
	// What strangers may have looked up: for how long it counts, after which time it failed, how
	// many sandboxes are remembered, and how many are looked up at a time.
	lookupFor     = 2 * time.Second
	lookupTime    = 5 * time.Second
	lookupLimit   = 4096
	lookupsAtOnce = 8
	// maxNumber is more than any number of lines or results can be.
	maxNumber = 1 << 31
)
