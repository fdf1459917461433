package tries

import "time"

// So many tries of each verdict are said one by one, a second and at once; of more their number, each
// interval, in which the first try to each of mostFirsts hosts is said, too: who tries many others has
// wildcards, or is denied.
const (
	perSecond  = 10
	burst      = 100
	mostFirsts = 100
	interval   = 10 * time.Second
)
