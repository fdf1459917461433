package main

import "time"

// Every bound of the verbs. Those that users meet come first.
const (
	// preflightTimeout bounds the checks when a server starts, each of which takes a
	// call of the API server. Clients wait half a minute for a server's first answer,
	// and by then the checks have found more than one call that hangs.
	preflightTimeout = 20 * time.Second
	// mcpEnd bounds the end of mcp --http: the grace of the clients' pods, and the
	// answers of the API server. Beyond it sandboxes may be left.
	mcpEnd = 45 * time.Second
	// maxToolInput bounds the input of a tool from standard input, in bytes: a model's
	// message is far smaller.
	maxToolInput = 16 << 20
	// leastExecID is how many characters of an exec id are enough: fewer are more
	// likely a mistake, such as a pid.
	leastExecID = 4

	// lookPeriod is how often forward looks whether the sandbox is still there, and
	// lookTimeout how long it waits for the answer. A person at a page that does not
	// load wants to know why within seconds.
	lookPeriod  = 2 * time.Second
	lookTimeout = 10 * time.Second
	// completeTimeout bounds how long a shell waits for the ids of sandboxes.
	completeTimeout = 2 * time.Second

	// mcpHeaderTime and mcpHeaderBytes bound the header of a request: a client that
	// has not shown the token yet gets little of either.
	mcpHeaderTime, mcpHeaderBytes = 10 * time.Second, 64 << 10
	// mcpKeepAlive is how long a connection stays open without a request: as long as a
	// model may think.
	mcpKeepAlive = 5 * time.Minute
	// mcpSessionEnd bounds the removal of a session's files from a shared sandbox.
	mcpSessionEnd = 10 * time.Second

	// shortExecID is the length of an exec id's last group.
	shortExecID = 12
	// mostNamed bounds how many candidates an error names.
	mostNamed = 5
	// commandWidth is how many characters of a command a table shows, or a list of
	// candidates.
	commandWidth = 60
	// redraw is how often a progress bar is drawn: as often as an eye can follow
	// figures. What takes less shows none.
	redraw = 100 * time.Millisecond
)
