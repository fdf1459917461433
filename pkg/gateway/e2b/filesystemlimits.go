package e2b

import "time"

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
	// watchersLimit is how many watches of a tenant are asked for their events, at one gateway, of which
	// one sandbox, and so a token for it, has no more than watchersOfSandbox; and watcherLimit how large the events of one are between two calls, in bytes: with eventSize for each
	// beside its name, some ten thousand.
	watchersLimit     = 64
	watchersOfSandbox = 16
	watcherLimit      = 1 << 20
	eventSize         = 64
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
	// envsLimit is how large the environment of a sandbox can be, in bytes: Linux takes no more.
	envsLimit = 2 << 20
)
