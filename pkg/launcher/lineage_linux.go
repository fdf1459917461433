package launcher

import (
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// A lineage is a number that the processes of a sandbox bear in two hard limits, which no kernel uses any more
// for what they say, as those of an exec do within it (mark_linux.go of the agent's package proc): RLIMIT_LOCKS
// rises with the number, and RLIMIT_RTTIME falls. Descendants inherit both, whatever they do to their parents and
// environment, and can only lower them. So they can blur the number, and never bear another one. The
// numbers are random, and so many that two sandboxes do not share one.
const (
	lineageNumbers = 1<<40 - 1 // from 1
	// lineageStep leaves room below for the numbers of an agent's execs.
	lineageStep = 1 << 20
	// lineageBase stands for a limit that is unlimited.
	lineageBase = 1 << 62
)

// newLineage returns a number, 0 if this process has lower limits itself: it runs in a sandbox then, whose
// agent ends all.
func newLineage() uint64 {
	for _, resource := range []int{unix.RLIMIT_LOCKS, unix.RLIMIT_RTTIME} {
		var own unix.Rlimit
		if err := unix.Prlimit(0, resource, nil, &own); err != nil || own.Max < lineageBase {
			return 0
		}
	}
	return 1 + rand.Uint64N(lineageNumbers)
}

// lineageFlags are the agent's flags for a lineage.
func lineageFlags(number uint64) []string {
	if number == 0 {
		return nil
	}
	return []string{fmt.Sprintf("--lineage=%d:%d", lineageBase-lineageStep*(lineageNumbers+1-number), lineageBase-lineageStep*number)}
}

// isOf reports whether a process is of a lineage. One that has blurred its number counts if it may be, and
// the kernel confines it as it does the commands of sandboxes: a process that has little to do with podagent may have
// low limits, too.
func isOf(number uint64, pid int, processes *procfs.FS) bool {
	if number == 0 || pid == os.Getpid() {
		return false
	}
	var locks, rttime unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &locks) != nil || unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &rttime) != nil {
		return false // it has ended, or is another user's
	}
	if stat, err := processes.Stat(pid); err != nil || stat.Ended() {
		return false // only its parent's wait for it is missing
	}
	if locks.Max >= lineageBase || rttime.Max >= lineageBase {
		return false
	}
	low := lineageNumbers + 1 - min((lineageBase-locks.Max)/lineageStep, lineageNumbers)
	high := min((lineageBase-rttime.Max)/lineageStep, lineageNumbers)
	if low == high {
		return low == number
	}
	if number < low || number > high {
		return false
	}
	confined, err := processes.Confined(pid)
	return err == nil && confined
}
