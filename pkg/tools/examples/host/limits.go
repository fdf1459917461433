package main

import "time"

const (
	// ownedRetry is the time between tries to get a sandbox that another host owns.
	// It is short compared to the 30 s for which a killed host still owns it.
	ownedRetry = time.Second
	// apiRate and apiBurst limit the requests per second to the API server. A call
	// of a tool takes two, for the save after it.
	apiRate, apiBurst = 50, 100
	// testTimeout bounds the job's test: more is too long after each turn. testOutput is how many bytes of
	// its output, from the end, the model is told.
	testTimeout, testOutput = 10 * time.Minute, 8 << 10
	// exitTryLater is EX_TEMPFAIL of sysexits(3).
	exitTryLater = 75
)
