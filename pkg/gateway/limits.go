package gateway

import (
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// The bounds of what the gateway holds and answers, each with its reason.
const (
	// bodyLimit is how large the JSON body of a command or a search may be, in bytes: standard input
	// of three megabytes in base64. The bodies of other operations may have huma's megabyte.
	bodyLimit = 4 << 20
	// jsonDepth and jsonParts bound how intricate a JSON body is: a command has some levels and a
	// thousand arguments. Long texts are one part. Decoded, such a body takes up to 40 MB.
	jsonDepth = 64
	jsonParts = 1 << 16
	// bodySilence is how long the sender of a body may send nothing.
	bodySilence = time.Minute
	// faultLimit is how many mistakes in a request an answer names.
	faultLimit = 10
	// execOutputLimit is how much of each output an answer has, from its end, in bytes. The rest
	// can be read as the process's output.
	execOutputLimit = 4 << 20
	// elementLimit is how many fields the first message of a call of podapi may have, with those of its
	// parts: more arguments than Linux takes. Each takes two bytes, and up to a hundred when it is decoded.
	elementLimit = 1 << 18
	// statusTextLimit is how much of an error's text a status of gRPC has, in bytes: it is sent twice
	// in the trailer, where many clients take 8 KiB in all.
	statusTextLimit = 1 << 10
	// exitLimit is more than a message has that says how a command or a write ended, in bytes.
	exitLimit = 256
	// startTime is how long a command whose caller has left may take to start.
	startTime = 30 * time.Second
	// listLimit is how many entries of a directory an answer has, and listSize how many bytes their texts
	// may have in all: agents may lie, and names and targets of links may be long.
	listLimit = 10_000
	listSize  = 4 << 20
	// labelLimit is how many labels a list can be filtered by: no sandbox has more.
	labelLimit = 64
	// idleTime is how long the agents that are asked how long they have been idle may take, one or all of a
	// list: a page shows what it has after that. idleAtOnce is how many a request asks at a time.
	idleTime   = time.Second
	idleAtOnce = 16
	// eventsTime is how long events may take to be read, eventsAtOnce how many sandboxes' are read at a time, and
	// eventTextLimit how much of each text is shown, in bytes: more than Kubernetes itself writes.
	eventsTime     = 10 * time.Second
	eventsAtOnce   = 4
	eventTextLimit = 1 << 10
	// openTime is how long a sandbox may take to be opened, also if it has to be resumed: what
	// the launcher allows, and a minute. patience is how long a caller waits for that: most
	// clients and proxies give up after a minute. retryAfter is when it should try again then.
	openTime   = launcher.DefaultReadyTimeout + time.Minute
	patience   = 50 * time.Second
	retryAfter = 2 * time.Second
	// restedAfter is how long a sandbox can be unused before the gateway asks whether it is
	// there: no sandbox is idle for less than 5 s before it ends.
	restedAfter = 4 * time.Second
	// heldFor is how long a sandbox stays open after its last use. Its connection ends a minute
	// after its last call in any case.
	heldFor = 10 * time.Minute
	// silence is how long a stream of events, or an answer in lines, is silent: proxies close those of a
	// minute.
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
	// many of a tenant's sandboxes are remembered, for how long one that was found takes room after it
	// counts, how many are looked up at a time, and how many of a tenant that are new, or again.
	lookupFor       = 2 * time.Second
	lookupTime      = 5 * time.Second
	lookupLimit     = 1024
	lookupKept      = time.Minute
	lookupsAtOnce   = 8
	lookupsOfTenant = 2
	// keyFileLimit is how large the file of keys may be: as large as a Secret, in bytes.
	keyFileLimit = 1 << 20
	// keyFileTime is how long a file of keys that looks unchanged is taken to be so.
	keyFileTime = time.Second
	// defaultStreams is how many requests of a tenant may be under way at once unless its policy says
	// otherwise, and as many of those who come to its servers without a token: more than hundreds of
	// agents have, and an eighth of the connections that "orchestrator gateway" takes.
	defaultStreams = 512
	// askInterval is how often it is asked whose the tokens of calls under way are: a revoked
	// key ends them in this time. askTime is how long the answers may take.
	askInterval = 2 * time.Second
	askTime     = 10 * time.Second
	// untoldTime is how long calls go on while nobody can say whose their tokens are: an API
	// server that is restarted, or a Secret that is mended, takes less.
	untoldTime = time.Minute
	// revokedTime is how long a call that is ended may take to say so to its caller, after it has let go
	// of what it runs.
	revokedTime = 5 * time.Second
	// untoldInterval is how often the log says that callers cannot be told.
	untoldInterval = time.Minute
	// failureRate is how many wrong tokens a second an address may send, after failureBurst: more
	// than a client with an old key does by mistake. There are failureCounts counters, a hundred
	// bytes each.
	failureRate   = 5
	failureBurst  = 100
	failureCounts = 1024
	// tokenLimit is more than a service account's token has, in bytes.
	tokenLimit = 16 << 10
	// validTime and invalidTime are how long an answer about a service account's token counts: an
	// account that is deleted may call for so long, and a wrong token makes so few reviews.
	validTime   = 30 * time.Second
	invalidTime = 10 * time.Second
	// reviewRate, reviewBurst and reviewsAtOnce bound what garbage makes of reviews, at the API
	// server: a thousand tokens, each asked for again when its answer counts no more, need 33 a
	// second. reviewTime is how long one may take.
	reviewRate    = 100
	reviewBurst   = 200
	reviewsAtOnce = 16
	reviewTime    = 10 * time.Second
	// reviewsKept is more than reviewRate makes in validTime.
	reviewsKept = 4096
	// bookTimeout is how long the gateway tries to write what tenants have: other gateways write
	// as well, and each lists the sandboxes first.
	bookTimeout = 30 * time.Second
	// sessionIdle is how long a session of the Model Context Protocol lasts after its last call: a
	// person may be away for a meal. A local sandbox of one that has ended is found looksInIdle
	// times in that time.
	sessionIdle = time.Hour
	looksInIdle = 6
	// sessionsKept is how many sessions of a tenant a gateway remembers, of 80 kB each: more than it
	// has agents at work. tidyTime is how long it takes at most to remove what one of them kept.
	sessionsKept = 64
	tidyTime     = 10 * time.Second
	// sessionIDLimit is how long a session's id may be, in bytes: they are of 70.
	sessionIDLimit = 128
	// launchSpare is how long a launch may take beyond the time until the agent answers: to make
	// the pod, to wait for an earlier one of the id to go, and to remove what failed. clockSkew is
	// by how much the clocks of gateways may differ, and more.
	launchSpare = time.Minute
	// discardTime is how long the removal of a new sandbox may take that did not get its files: its caller may have
	// left, and a cluster ends a pod in less.
	discardTime = time.Minute
	clockSkew   = time.Minute
	// sweepInterval is how often the gateway that leads looks at all sandboxes: that is one list, and
	// what has ended may stay for so long. sweepsAtOnce bounds what it does at once, and sweepTime each
	// act: files take some seconds to go.
	sweepInterval = 30 * time.Second
	sweepsAtOnce  = 16
	sweepTime     = time.Minute
	// settleInterval is how often it settles the books of tenants, which lists the sandboxes once for
	// each tenant with a budget. A budget is charged for as long after a sandbox has ended by itself.
	settleInterval = 5 * time.Minute
	// beatAfter is after how long without a heartbeat it says that a sandbox is needed: reapers wait
	// for several times as long.
	beatAfter = 5 * time.Minute
	// expiredStay is how long the files of a sandbox outlive its lifetime: the launcher removes none
	// before.
	expiredStay = 24 * time.Hour
	// What there may be of the way out: rules and credentials of a tenant, more than people write;
	// connections at one gateway, each of which has two buffers of 32 KiB, and of these of a tenant unless
	// its policy says otherwise: as many as one sandbox may have. egressServings is how many times a far end
	// may serve at once: a connection is kept for longer than its policy's credentials by none.
	egressRules              = 1000
	egressCredentials        = 64
	egressPorts              = 64 // as launchers take
	egressConnections        = 4096
	defaultEgressConnections = 512
	egressServings           = 4
	// egressValueLimit is more than the value of a credential has, in bytes.
	egressValueLimit = 64 << 10
	// egressTurns is how many bits of a generation count the times that a far end serves in an epoch.
	egressTurns = 20
	// egressInterval is how often it is looked who keeps a sandbox, and what it may reach: a policy that
	// changes counts within this time. egressListInterval is how often all sandboxes are listed for
	// that, which may take egressListTime: those that this gateway makes it knows at once, and those of
	// a gateway that was killed are known before.
	egressInterval     = time.Second
	egressListInterval = 15 * time.Second
	egressListTime     = time.Minute
	// egressLevelInterval is how often a sandbox whose tenant requires a level is asked for it.
	egressLevelInterval = time.Minute
	// egressPatience is how long a sandbox's maker waits for its way out.
	egressPatience = 10 * time.Second
	// A far end tries again after a pause, which grows; and serves anew in place of a stale one not more
	// often than the longest.
	egressPause     = 500 * time.Millisecond
	egressLastPause = 15 * time.Second
	// egressQuiet is how often a gateway that ends looks whether connections are open.
	egressQuiet = 20 * time.Millisecond
	// egressTellTime is how long observers may take to be told of a try.
	egressTellTime = 10 * time.Second
	// maxNumber is more than any number of lines or results can be.
	maxNumber = 1 << 31
	// stdinLimit is how much standard input a request may bring, in bytes: all of it is held
	// until the command has taken it. More comes in several requests.
	stdinLimit = 1 << 20
	// frameLimit is how large a frame of a terminal may be, in bytes: what a pipe holds, after
	// its offset. controlLimit is that of one with a message.
	frameLimit   = 8 + 64<<10
	controlLimit = 4 << 10
	// peerSilence is how long the caller of a terminal may be silent, which is asked for a sign
	// of life each silence, and how long a frame may wait for its caller to read.
	peerSilence = time.Minute
	// farewell is how long a terminal's connection stays for the caller to read its end.
	farewell = 5 * time.Second
	// answerSilence is how long a caller may read nothing of an answer that has more to say, and
	// answerPart how much is written at a time, in bytes: a caller that reads slower than a
	// kilobyte a second is cut off.
	answerSilence = time.Minute
	answerPart    = 64 << 10
	// handover is how long a watch goes on after its caller was told to watch elsewhere: the other
	// watch begins meanwhile, so that no change is missed.
	handover = 5 * time.Second
	// reconnectAfter is when a page should watch again that does so only when the stream has ended.
	reconnectAfter = time.Second
	// What Ready asks of the launcher: how often, for how long it waits, and for how long an answer
	// counts: an API server that is restarted is away for less.
	reachInterval = 5 * time.Second
	reachTime     = 10 * time.Second
	reachableFor  = 30 * time.Second
	// socketBuffer bounds what the kernel keeps for a caller that reads slowly, in bytes.
	socketBuffer = 128 << 10
	// closeTime bounds how long Close waits: a detach from a process, and a farewell.
	closeTime = 15 * time.Second
	// lastTime is how long the requests that are ended then may take to return.
	lastTime = 2 * time.Second
	// What observers are told of an act, in bytes: of each text, of a name, and of all arguments and
	// paths together, which are textsLimit at most: as much as a person reads. secretSpan is how far
	// behind a cut a secret may reach that begins before it, and is known as such.
	textLimit     = 4 << 10
	nameTextLimit = 256
	detailLimit   = 16 << 10
	textsLimit    = 256
	secretSpan    = 4 << 10
	// What is kept in memory of a sandbox (recent.go), in bytes: of its calls and as much again of those that
	// only look, of each verdict on its tries to reach others, and of a call's arguments or paths, of which
	// there are recentTexts at most, with recentTextSize for each. Calls that are usual have a few hundred.
	recentActs      = 64 << 10
	recentDecisions = 32 << 10
	recentText      = 1 << 10
	recentTexts     = 32
	recentTextSize  = 16
	// rsaLeast and rsaMost bound the RSA keys of SSH, in bits: shorter ones are weak, and longer ones
	// make each login slow.
	rsaLeast = 2048
	rsaMost  = 8192
	// A tenant has at most visitsOfTenant connections of SSH at a gateway, and all of its connections
	// visitChannels channels, each of which can hold 2 MiB of what its client sent.
	visitsOfTenant = 64
	visitChannels  = 128
	// visitMemory and visitDisk bound what the gateway keeps of the files that a tenant's connections write: what
	// arrived out of order, and what is changed in place. The others bound that of all tenants together: an
	// eighth of the chart's memory, and less than its volume for temporary files.
	visitMemory      = 32 << 20
	visitMemoryOfAll = 128 << 20
	visitDisk        = 1 << 30
	visitDiskOfAll   = 4 << 30
	// visitAhead and visitAheadOfAll bound in the same way what is kept of the files that they read. A file that
	// is read fast takes 6 MiB.
	visitAhead      = 32 << 20
	visitAheadOfAll = 128 << 20
	// paceTime is how long a call of such a connection waits for its tenant's rate to allow it.
	paceTime = 30 * time.Second
	// A deed of such a connection, as a file that it reads in pieces, is one call to the rate for each deedParts
	// pieces, or deedBytes, of which 64 pieces of 256 KiB have as many.
	deedParts = 64
	deedBytes = 16 << 20
	// knowTime is how long such a connection tries to learn of an agent before it makes a call of that. A
	// sandbox that is open answers in milliseconds.
	knowTime = 5 * time.Second
)
