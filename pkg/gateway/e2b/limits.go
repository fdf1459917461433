package e2b

import "time"

// The bounds of the control plane, each with its reason.
const (
	// controlBodyLimit is how large a body may be, in bytes: that of the gateway's own creates.
	controlBodyLimit = 1 << 20
	// timeoutV1 and timeoutV2 are the timeouts of who names none, as E2B has them for each generation.
	timeoutV1 = 15 * time.Second
	timeoutV2 = 300 * time.Second
	// leastTimeout is how long a new sandbox lives at least: no launcher ends one sooner.
	leastTimeout = 5 * time.Second
	// mostTimeout is more than any sandbox lives, in seconds: thirty years.
	mostTimeout = 1_000_000_000
	// pageLimit is how many sandboxes a list has, as E2B's do.
	pageLimit = 100
	// forksLimit is how many forks a request may ask for, as at E2B, and forksAtOnce how many of them are made at
	// once: each reads the checkpoint in the same sandbox.
	forksLimit  = 100
	forksAtOnce = 4
	// listedAtOnce is how many sandboxes are asked for their snapshots at once.
	listedAtOnce = 8
	// recordParts is how many labels the record of a sandbox may take: of the 64 that there are, the
	// others are for metadata that are labels by themselves, and the gateway's own. They hold 1,800 bytes.
	recordParts = 40
	// mostLabels is how many labels a sandbox may get here: 64 without the gateway's own.
	mostLabels = 56
	// metricsSpan is between the two looks at the processors from which their use is told.
	metricsSpan = 100 * time.Millisecond
)

// The bounds of envd's calls, each with its reason.
const (
	// messageLimit is how large a message of a caller may be, in bytes, also decompressed: standard
	// input of three megabytes in base64, as REST takes it.
	messageLimit = 4 << 20
	// compressFrom is how large an answer is that is compressed if the caller takes that, in bytes:
	// below, it costs more time than it saves.
	compressFrom = 16 << 10
	// keepaliveDefault is how long a stream is silent if its caller does not ask for less: proxies
	// close those of two minutes.
	keepaliveDefault = 90 * time.Second
	// tagLimit is how long the tag of a process may be, in bytes: names are shorter. It is read in the
	// environment of the process, of which environLimit bytes count: more than any but a hostile one
	// has. A list has the tags of tagsListed processes: each takes a call of its own.
	// A process that just turns into another program has none for a moment: so it is read tagTries times.
	tagLimit     = 256
	environLimit = 128 << 10
	tagsListed   = 64
	tagTries     = 3
	// idsKept is how many processes are remembered that input was sent to, at some 200 bytes each: more
	// than have terminals at a time.
	idsKept = 4096
)

// The bounds of files and watches, each with its reason.
const (
	// dirMode is that of directories which are made, as envd makes them.
	dirMode = 0o755
	// listLimit is how much a listing may have, in bytes, with entrySize for each entry beside its names:
	// some fifty thousand, as a large work tree. Of more one learns by an error, since the answer cannot
	// say that it lacks some.
	listLimit = 8 << 20
	entrySize = 100
	// levelsLimit is how many levels of directories a listing may have: trees have a dozen.
	levelsLimit = 64
	// looksAtOnce is how many links of a listing are followed at once.
	looksAtOnce = 16
	// watchersLimit is how many watchers a tenant may have at one gateway, and watchersOfSandbox how many of
	// them one sandbox, and so a token for it: each holds a call of the sandbox's agent.
	watchersLimit     = 64
	watchersOfSandbox = 16
	// watcherLimit is how large the events of a watcher may be between two calls that ask for them, in bytes,
	// with eventSize for each beside its name: some ten thousand.
	watcherLimit = 1 << 20
	eventSize    = 64
	// watcherIdle is how long a watch lasts that nobody asks for events: a program that does asks each
	// second, or between its steps. Until then it keeps its sandbox from being idle.
	watcherIdle = 10 * time.Minute
	// filesLimit is how many files a request may bring: more are better sent as one archive.
	filesLimit = 10_000
	// signedLimit is how much a signed URL may have to hash, in bytes, since strangers may send it: its path
	// and user, as long as Linux takes a path. expirationLimit is more than its time takes.
	signedLimit     = 4096
	expirationLimit = 20
	// otherPartLimit is how much a form may have beside its files, in bytes, which is read for nothing,
	// and partHeaderLimit how much more with each file: its header, and what is read ahead with that.
	otherPartLimit  = 1 << 20
	partHeaderLimit = 16 << 10
	// healthTime is how long the answer to whether a sandbox runs may take: the clients wait for five
	// seconds.
	healthTime = 4 * time.Second
	// agentTime is how much of that is for its agent.
	agentTime = 3 * time.Second
	// envsLimit is how large the environment of a sandbox can be, in bytes: Linux takes no more.
	envsLimit = 2 << 20
)

// never is when a sandbox ends that does not end by a time: clients want one.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
