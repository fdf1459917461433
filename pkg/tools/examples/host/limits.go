package main

import "time"

const (
	// ownedRetry is the time between tries to get a sandbox that another host
	// has: short against the 30 s after which one that was killed has it no more.
	ownedRetry = time.Second
	// apiRate and apiBurst are requests a second to the API server: a call of a
	// tool takes two, for the save after it.
	apiRate, apiBurst = 50, 100
	// exitTryLater is EX_TEMPFAIL of sysexits(3).
	exitTryLater = 75
)
