package launcher

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/internal/mark"
)

// A lineage is a number that all processes of a sandbox bear in two hard limits, which no kernel uses any more
// for what they say: RLIMIT_LOCKS rises with the number, and RLIMIT_RTTIME falls. Descendants inherit both,
// whatever they do to their parents and their environment, and can only lower them. So they can blur their
// number, but never bear another one. Numbers are random, and so many that two sandboxes do not share one.
//
// In the same way the agent marks the processes of each exec (mark_linux.go of its package proc).
const (
	lineageNumbers = 1<<40 - 1 // from 1
	// lineageStep leaves room below for the numbers of an agent's execs.
	lineageStep = 1 << mark.Depth
	lineageBase = mark.Base
)

// newLineage returns a number, 0 if this process has lower limits itself: it runs in a sandbox then, whose
// agent ends all.
func newLineage() uint64 {
	if !isUnlimited() {
		return 0
	}
	return 1 + rand.Uint64N(lineageNumbers)
}

// isUnlimited reports whether this process has both limits, so that it can have others bear numbers.
func isUnlimited() bool {
	for _, resource := range []int{unix.RLIMIT_LOCKS, unix.RLIMIT_RTTIME} {
		var own unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &own); err != nil || own.Max < lineageBase {
			return false
		}
	}
	return true
}

// lineageFlags are the agent's flags for a lineage.
func lineageFlags(number uint64) []string {
	if number == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--lineage=%d:%d", lineageBase-lineageStep*(lineageNumbers+1-number), lineageBase-lineageStep*number)}
}

// numbers are those that a lineage may have, from low to high: one, unless it was blurred. Of none both are 0.
type numbers struct{ low, high uint64 }

// numbersOf returns the numbers of a process. It is an error if it has ended, or is another user's.
func numbersOf(pid int) (n numbers, err error) {
	var locks, rttime unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &locks); err != nil {
		return n, err
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &rttime); err != nil {
		return n, err
	}
	if locks.Max >= lineageBase || rttime.Max >= lineageBase {
		return n, nil
	}
	n.low = lineageNumbers + 1 - min((lineageBase-locks.Max)/lineageStep, lineageNumbers)
	n.high = min((lineageBase-rttime.Max)/lineageStep, lineageNumbers)
	return n, nil
}

// whole reports whether the number is certain.
func (n numbers) whole() bool { return n.low == n.high && n.low > 0 }

// may reports whether the number may be that of a sandbox.
func (n numbers) may(number uint64) bool { return number > 0 && n.low <= number && number <= n.high }
