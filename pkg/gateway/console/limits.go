package console

import "time"

// The bounds of sessions, each with its reason.
const (
	// sessionTime is how long a login lasts: a working day.
	sessionTime = 12 * time.Hour
	// tokenLimit is how long the token of a session may be, in bytes: sealed, it fits into a cookie, for which
	// browsers have 4,096 bytes. Tokens of service accounts have up to 1,500.
	tokenLimit = 2800
	// loginLimit is how large the body of a login may be, in bytes: a token in JSON.
	loginLimit = 8 << 10
	// loginBodyTime is how long such a body may take.
	loginBodyTime = 10 * time.Second
	// codeTime is how long a code for one login counts: for as long as a browser may take to start.
	codeTime = 5 * time.Minute
	// endedLimit is how many sessions of a tenant that have been ended are remembered: more than its people
	// end in sessionTime. Of more, those that would have expired first are forgotten, and what expires no later
	// than them has ended, too.
	endedLimit = 256
	// ledgerInterval is how long what the ledger says counts: a session that is ended at another replica ends in this
	// time. After a failure it is left alone for as long. ledgerTime is how long it may take to answer, and
	// ledgerPatience for how long it may be away: an API server that is restarted takes less. Meanwhile a request
	// waits for it for ledgerWait, and then believes what was known.
	ledgerInterval = 2 * time.Second
	ledgerWait     = time.Second
	ledgerTime     = 10 * time.Second
	ledgerPatience = time.Minute
	// pageTime is how long a browser may take to read a file of the page.
	pageTime = time.Minute
)
