package proc

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn"
	"github.com/podagent/podagent/internal/mark"
	"github.com/podagent/podagent/pkg/procfs"
)

// An exec's number is marked in two hard limits of its processes that no kernel uses any
// more for what they say: RLIMIT_LOCKS rises with the number, and RLIMIT_RTTIME, which
// limits real-time threads to some hundred thousand years, falls. Descendants inherit
// both, whatever they do to their session, parent and environment. A process can only
// lower its hard limits, and another number would need one of them to be higher. So a
// process can blur its mark, and never bear that of another exec. A blurred mark still
// brackets the true number.
//
// gVisor lets nobody set these two, and uses neither RLIMIT_RSS nor RLIMIT_NPROC for
// anything. There these bear the mark.
//
// A process with CAP_SYS_RESOURCE, such as root's on a machine, can raise limits and so
// remove its mark. If it then leaves its parents, too, it is a stray (strays_linux.go).
//
// Where commands are not confined, a process may blur the marks of others of its user, with
// prlimit(2), so that they count to more execs than their own. It gains nothing: the kernel
// lets it signal those processes, too. It may also lower the agent's own limits. The execs
// that start later then bear no mark, and only sessions, parents and environments show
// what belongs to them.
const (
	// markNumbers is how many numbers there are, from 1. When the last is taken, the
	// first ones come again, except those that are still in use.
	markNumbers = 1<<19 - 1
	// markDepth makes the steps finer of an agent that runs in an exec of another agent,
	// or in a sandbox that has a mark. So all marks that the inner agent sets stay within
	// one step of the outer one's, below it.
	markDepth = mark.Depth
	markBase  = mark.Base
)

// marks sets and reads marks, relative to the agent's own hard limits. It gives out the
// numbers.
type marks struct {
	// rising and falling are the resources that bear the mark. Whatever they are, their
	// limits are called as on Linux.
	rising, falling int
	locks, rttime   uint64
	// step is the distance between the limits of two numbers. 0 says that the agent's
	// own limits have no room for marks.
	step uint64

	mu   sync.Mutex
	last int
	// taken are the numbers that must not come again before the next round, starting
	// those of starts under way.
	taken, starting map[int]bool
}

// open learns the agent's own limits. It begins with a number at random, so that two
// managers which adopt no orphans (tests) hardly ever share one.
func (m *marks) open() {
	m.rising, m.falling = unix.RLIMIT_LOCKS, unix.RLIMIT_RTTIME
	if !mark.Settable(m.rising) {
		m.rising, m.falling = unix.RLIMIT_RSS, unix.RLIMIT_NPROC
	}
	own, err := m.limitsOf(0)
	if err != nil {
		return
	}
	m.starting = map[int]bool{}
	m.locks, m.rttime, m.last = min(own.locks, markBase), min(own.rttime, markBase), rand.IntN(markNumbers)
	// The largest step leaves room for two more agents within each other.
	m.step = 1 << (2 * markDepth)
	for m.step > 0 && !(fits(m.locks, m.step) && fits(m.rttime, m.step)) {
		m.step >>= markDepth
	}
}

// fits reports whether a limit has room for marks with this step: it is a whole number of
// the steps of the agent around this one, and large enough for all numbers.
func fits(limit, step uint64) bool {
	outer := step << markDepth
	return limit >= outer && limit%outer == 0
}

// next returns a number that is not in use, 0 if there is none or nobody can say.
func (m *marks) next(inUse func() (map[int]bool, error)) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.step == 0 {
		return 0
	}
	for range markNumbers {
		m.last++
		if m.last > markNumbers {
			taken, err := inUse()
			if err != nil {
				m.last--
				return 0
			}
			m.last, m.taken = 1, taken
		}
		if !m.taken[m.last] && !m.starting[m.last] {
			m.starting[m.last] = true
			return m.last
		}
	}
	return 0
}

// started ends the start of a number. From here on the exec is known, or has failed.
func (m *marks) started(number int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.starting, number)
}

// underWay returns the numbers of starts under way.
func (m *marks) underWay() map[int]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.starting)
}

// markLimits are the hard limits that bear a mark.
type markLimits struct{ locks, rttime uint64 }

// limits returns the mark of a number.
func (m *marks) limits(number int) markLimits {
	return markLimits{
		locks:  m.locks - m.step*uint64(markNumbers+1-number),
		rttime: m.rttime - m.step*uint64(number),
	}
}

// lineage is the range that the number of a process's exec is in, from low to high. In a
// whole mark they are equal. Without a mark both are 0.
type lineage struct{ low, high int }

var noLineage lineage

func (l lineage) whole() bool   { return l.low == l.high && l.low > 0 }
func (l lineage) blurred() bool { return l.low < l.high }

// has reports whether a number is one of the lineage.
func (l lineage) has(number int) bool { return number > 0 && l.low <= number && number <= l.high }

// read returns the lineage of a process with these limits.
func (m *marks) read(l markLimits) lineage {
	l.locks, l.rttime = min(l.locks, m.locks), min(l.rttime, m.rttime)
	if m.step == 0 || l.locks == m.locks || l.rttime == m.rttime {
		return lineage{}
	}
	// Rounded away from what an agent within the exec has taken off.
	low := markNumbers + 1 - int(min((m.locks-l.locks)/m.step, markNumbers))
	high := int(min((m.rttime-l.rttime)/m.step, markNumbers))
	if low > high {
		return lineage{}
	}
	return lineage{low, high}
}

// nextNumber returns a number for a new exec, 0 if there is none.
func (m *Manager) nextNumber() int { return m.proc.marks.next(m.numbersInUse) }

// numbersInUse are the numbers that processes bear, and those of execs that are known.
func (m *Manager) numbersInUse() (map[int]bool, error) {
	taken := map[int]bool{}
	all, err := m.proc.all()
	for _, a := range all {
		if a.lineage.whole() { // a blurred one stands for many
			taken[a.lineage.low] = true
		}
	}
	for _, p := range m.all() {
		taken[p.mark] = true
	}
	return taken, err
}

// forNumber returns the limits that bear a number. 0 is no number.
func (m *marks) forNumber(number int) []spawn.Limit {
	if number == 0 {
		return nil
	}
	l := m.limits(number)
	return []spawn.Limit{
		{Resource: m.rising, Rlimit: unix.Rlimit{Cur: l.locks, Max: l.locks}, Optional: true},
		{Resource: m.falling, Rlimit: unix.Rlimit{Cur: l.rttime, Max: l.rttime}, Optional: true},
	}
}

// leave leaves out limits that would blur a mark: those that gVisor does not use. On Linux
// nobody can ask for such limits.
func (m *marks) leave(limits []spawn.Limit) []spawn.Limit {
	return slices.DeleteFunc(limits, func(l spawn.Limit) bool { return l.Resource == m.rising || l.Resource == m.falling })
}

// limitsOf returns the limits of a process that the agent may ask for them. 0 is the
// agent itself.
func (m *marks) limitsOf(pid int) (l markLimits, err error) {
	var locks, rttime unix.Rlimit
	if err := unix.Prlimit(pid, m.rising, nil, &locks); err != nil {
		return l, err
	}
	err = unix.Prlimit(pid, m.falling, nil, &rttime)
	return markLimits{locks.Max, rttime.Max}, err
}

// IsMarked reports whether a process belongs to an exec, of this agent or of any other that runs with the
// same limits or higher ones. It is not marked if it cannot be looked at, which is an error.
func IsMarked(pid int) (bool, error) {
	m := marks{rising: unix.RLIMIT_LOCKS, falling: unix.RLIMIT_RTTIME}
	own, err := m.limitsOf(0)
	if err != nil {
		return false, err
	}
	its, err := m.limitsOf(pid)
	if errors.Is(err, unix.EPERM) {
		its.locks, its.rttime, err = new(procfs.FS).HardLimits(pid)
	}
	return err == nil && (its.locks < own.locks || its.rttime < own.rttime), err
}

// lineageOf returns the lineage of a process of any user.
func (m *marks) lineageOf(pid int, fs *procfs.FS) (lineage, error) {
	l, err := m.limitsOf(pid)
	if errors.Is(err, unix.EPERM) && m.rising == unix.RLIMIT_LOCKS {
		l.locks, l.rttime, err = fs.HardLimits(pid)
	}
	if err != nil {
		return lineage{}, err
	}
	return m.read(l), nil
}
