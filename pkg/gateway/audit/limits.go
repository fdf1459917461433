package audit

import "time"

const (
	// signInterval is how often what is new in a log is signed and brought to the disk: a log of which
	// somebody takes the end away lacks no more than what this time brought, or shows it.
	signInterval = time.Minute
	// fileLimit is how large a file becomes, in bytes: one that tools still open, and a day of a
	// gateway with a few calls a second.
	fileLimit = 256 << 20
	// lineLimit is how long a line may be that is verified, in bytes: more than the longest act,
	// each byte of which takes six in JSON at the most.
	lineLimit = 1 << 20
	// openLimit is how many acts of a chain may be open at once when it is verified: more than a
	// gateway has calls at a time. They are what is held in memory.
	openLimit = 1 << 18
)
