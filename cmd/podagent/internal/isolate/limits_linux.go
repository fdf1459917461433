package isolate

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/spawn/firstlimit"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	"github.com/podagent/podagent/pkg/procfs"
)

// Limits are those of the isolated program, with all that is below it.
type Limits struct {
	Limiter        isolation.Limiter // what keeps them already
	NoControlGroup string            // why that is no control group
	// Processes, if not 0, is how many processes and threads there may be. Resource limits see to that then, as
	// far as these can. Required says that they must count those of this sandbox alone.
	Processes int
	Required  bool
}

// agentThreads is how many processes and threads the agent may have besides those that its commands may have, so
// that these cannot keep it from working.
const agentThreads = 64

// coreLimit keeps crashes from the machine: a core dump of 1 byte is what the kernel neither writes nor
// gives to a program of the machine that collects them (core(5)).
const coreLimit = 1

// limit sets the resource limits of this process, at the level that it is to have. running counts the processes
// of the user that the kernel counts, too.
func (s *State) limit(level isolation.Level, running int) error {
	if err := errors.Join(lower(unix.RLIMIT_CORE, coreLimit), limitFiles()); err != nil {
		return err
	}
	if s.Limits.Processes == 0 {
		return nil
	}
	if os.Geteuid() == 0 { // for whom the kernel knows no such limit
		if level == isolation.Namespaces && s.numbered {
			s.Limiter = isolation.ResourceLimits
			return nil
		}
		return s.Limits.unkept("the kernel limits processes of root only by a control group, or in namespaces from Linux 6.14 on")
	}
	s.Processes = s.Limits.Processes + running
	s.Limiter = isolation.ResourceLimits
	if level != isolation.Namespaces {
		// Commands alone get the limit: another sandbox that begins later may have more processes than this limit says,
		// and an agent that can start no thread ends.
		return s.Limits.unkept("other processes of the user count, too")
	}
	return lower(unix.RLIMIT_NPROC, uint64(s.Processes+agentThreads))
}

// leastFiles is how many files a process of a sandbox may have open in any case, if this process may: what systems
// without a word of their own give to each.
const leastFiles = 1024

// limitFiles halves how many files a process of the sandbox may have open. The kernel counts the descriptors that are
// under way to other processes for all of a user together, and refuses more to a sender when there are as many as this
// limit says. So what sandboxes have under way leaves room to the programs outside that pass on their connections.
func limitFiles() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	limit.Max = max(limit.Max/2, min(limit.Max, leastFiles))
	limit.Cur = limit.Max
	if soft := firstlimit.Files.Soft; soft > 0 {
		limit.Cur = min(limit.Max, soft)
	}
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
}

// unkept returns an error if the limit of processes is required, since nothing keeps it, and why.
func (l *Limits) unkept(why string) error {
	if !l.Required {
		return nil
	}
	return Unavailable(fmt.Errorf("the limit of %d processes: %s: %s", l.Processes, why, l.NoControlGroup))
}

// lower lowers a limit of this process.
func lower(resource int, to uint64) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	limit.Max = min(limit.Max, to)
	limit.Cur = limit.Max
	return os.NewSyscallError("setrlimit", unix.Setrlimit(resource, &limit))
}

// limitNumbers limits the numbers that processes of the new namespace can have, which stands for a limit of
// processes where root has none. It is for the moment in which /proc is mounted, and still writable.
func (s *State) limitNumbers(proc string) error {
	if s.Limits.Processes == 0 || os.Geteuid() != 0 || !numbersByNamespace() {
		return nil
	}
	// The kernel keeps the first numbers for itself once it has given all others.
	most := strconv.Itoa(s.Limits.Processes + reservedNumbers)
	if err := os.WriteFile(proc+"/sys/kernel/pid_max", []byte(most), 0); err != nil {
		return os.NewSyscallError("limiting the numbers of processes", err)
	}
	// It reserves them only then. Where it does not let itself be told that it has, there may be as many more.
	err := os.WriteFile(proc+"/sys/kernel/ns_last_pid", []byte(strconv.Itoa(reservedNumbers)), 0)
	s.numbered = err == nil || !s.Limits.Required
	return nil
}

// reservedNumbers is RESERVED_PIDS of the kernel, and one for the number 0.
const reservedNumbers = 301

// numbersByNamespace reports whether the kernel has a greatest number for each namespace of processes. Before
// Linux 6.14 there was one for the whole machine.
func numbersByNamespace() bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	var major, minor int
	release := unix.ByteSliceToString(name.Release[:])
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 6 || major == 6 && minor >= 14
}

// running counts the processes and threads of this user.
func running() (n int, err error) {
	var processes procfs.FS
	pids, err := processes.PIDs()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		stat, err := processes.Stat(pid)
		if err == nil && owns(pid) {
			n += stat.Threads
		}
	}
	return n, nil
}

// owns reports whether a process is one of this user.
func owns(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.EPERM)
}
