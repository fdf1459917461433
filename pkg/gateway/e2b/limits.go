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
	// recordParts is how many labels the record of a sandbox may take: of the 64 that there are, the
	// others are for metadata that are labels by themselves, and the gateway's own. They hold 1,800 bytes.
	recordParts = 40
	// mostLabels is how many labels a sandbox may get here: 64 without the gateway's own.
	mostLabels = 56
	// metricsSpan is between the two looks at the processors from which their use is told.
	metricsSpan = 100 * time.Millisecond
)

// never is when a sandbox ends that does not end by a time: clients want one.
var never = time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
