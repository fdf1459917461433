package main

import "time"

// The bounds of the verbs. Those that users notice come first.
const (
	// preflightTimeout bounds the checks when a server starts. Each takes a call of
	// the API server. Clients wait half a minute for a server's first answer, and
	// within this time the checks have found more than one call that hangs.
	preflightTimeout = 20 * time.Second
	// mcpEnd bounds the end of mcp --http: the grace of the clients' pods, and the
	// answers of the API server. Beyond it sandboxes may be left.
	mcpEnd = 45 * time.Second
	// gatewayEnd is the patience of a gateway that ends: calls under way get this time, but
	// not those that follow something, which go on elsewhere. gatewayLast is for the answers
	// of what is ended then. exportEnd bounds the export of the traces that are left: a collector
	// that is there takes them at once. gatewaySpare is for what has no bound of its own, above all
	// the disk that takes the audit log. In gatewayGrace, after its drain delay, a gateway has ended:
	// as long as Kubernetes gives a pod, and the chart adds to the delay.
	gatewayEnd   = 20 * time.Second
	gatewayLast  = 3 * time.Second
	exportEnd    = 2 * time.Second
	gatewaySpare = 5 * time.Second
	gatewayGrace = gatewayEnd + gatewayLast + exportEnd + gatewaySpare
	// maxConnections is how many connections a gateway has unless told otherwise: idle ones
	// take 30 KiB each. maxStreams bounds the requests of one connection of HTTP/2 at once.
	maxConnections = 4096
	maxStreams     = 256
	// peerPing is after which silence a peer of HTTP/2 is asked for a sign of life, and
	// peerTime how long it may take, or read nothing.
	peerPing = time.Minute
	peerTime = time.Minute
	// checkTime bounds each check of what a gateway needs: after that time an API server
	// counts as unavailable. renewBefore is how long before its end a certificate should have
	// been renewed: those of Let's Encrypt are a month before.
	checkTime   = 10 * time.Second
	renewBefore = 14 * 24 * time.Hour
	// healthConnections is how many connections operators may have, and healthTime how long
	// a request of theirs may take: a kubelet waits for seconds.
	healthConnections = 64
	healthTime        = 10 * time.Second
	// exportErrorInterval is how often a log says that traces cannot be exported: they are
	// tried every few seconds.
	exportErrorInterval = time.Minute
	// maxToolInput bounds the input of a tool from standard input, in bytes: a model's
	// message is far smaller.
	maxToolInput = 16 << 20
	// leastExecID is the minimum length of an exec id: shorter ones are probably a
	// mistake, such as a pid.
	leastExecID = 4

	// lookPeriod is how often forward checks whether the sandbox still exists, and
	// lookTimeout how long it waits for the answer. A person with a page that does
	// not load wants to know why within seconds.
	lookPeriod  = 2 * time.Second
	lookTimeout = 10 * time.Second
	// allowFilePeriod is how often egress looks at the file of its rules: whoever takes a rule
	// away wants it to end at once. After allowFileAge the file is read, also if it looks the
	// same. maxAllowFile bounds it: more rules than anybody writes.
	allowFilePeriod = 500 * time.Millisecond
	allowFileAge    = 2 * time.Second
	maxAllowFile    = 1 << 20
	// mostNotes bounds what exec tells of the way out: more nobody reads beside a command's
	// output.
	mostNotes = 50
	// completeTimeout bounds how long a shell waits for the ids of sandboxes.
	completeTimeout = 2 * time.Second

	// requestHeaderTime and requestHeaderBytes bound the header of a request: a client that
	// has not shown the token yet gets little of either.
	requestHeaderTime, requestHeaderBytes = 10 * time.Second, 64 << 10
	// idleConnTime is how long a connection stays open without a request: as long as a
	// model may think.
	idleConnTime = 5 * time.Minute
	// mcpSessionEnd bounds the removal of a session's files from a shared sandbox.
	mcpSessionEnd = 10 * time.Second

	// maxShellPath bounds the path of a sandbox's shell: Linux's PATH_MAX.
	maxShellPath = 4 << 10
	// shortExecID is the length of an exec id's last group.
	shortExecID = 12
	// mostNamed bounds how many candidates an error names.
	mostNamed = 5
	// commandWidth is how many characters of a command a table shows, or a list of
	// candidates.
	commandWidth = 60
	// redraw is how often a progress bar is drawn: as often as an eye can follow. A
	// copy that takes less time shows no bar.
	redraw = 100 * time.Millisecond
)
