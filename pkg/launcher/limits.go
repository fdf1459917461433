package launcher

import "time"

// The bounds of the local launcher, each with its reason.
const (
	// startTimeout bounds the start of an agent, which takes some
	// milliseconds: long enough for a machine that swaps.
	startTimeout = 30 * time.Second
	// startPoll is how often a starting agent's socket is tried: about the
	// time that a start takes.
	startPoll = 2 * time.Millisecond
	// answerTimeout bounds the first answer of an agent that listens, which
	// takes a millisecond: one that takes so long is stopped, or starved. It is
	// under podapi.DialTimeout, so that no second attempt begins.
	answerTimeout = 10 * time.Second
	// connectTries is how often a connection is begun anew when the agent
	// ends just then: once would do, if not for the one that follows it.
	connectTries = 3
	// stopTimeout bounds the agent's graceful end: its own grace for
	// processes and calls, and some.
	stopTimeout = 10 * time.Second
	// stopPoll is how often, while an agent ends, the context is looked at:
	// soon for a person. The end itself is noticed at once.
	stopPoll = 100 * time.Millisecond
	// leftoverScans bounds how often leftovers are looked for: one that is
	// killed cannot start another, so that a few are enough.
	leftoverScans = 16
	// lockPoll is how often a lock that another holds is tried.
	lockPoll = 10 * time.Millisecond
)
