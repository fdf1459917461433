package proc

import (
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// Every bound in time and size of this package. Callers notice those of the first group,
// and proc.go promises them; the others are internal. Package journal bounds the output.
const (
	// drainTime is how long output may still come after a process has ended,
	// while a descendant holds it open. It covers the last writes of a pipeline,
	// and a person does not notice it.
	drainTime = 250 * time.Millisecond
	// killGrace is the time between SIGTERM and SIGKILL at a timeout and at
	// the shutdown: enough to remove a lock file, and far below the 30 s that
	// Kubernetes gives a pod.
	killGrace = time.Second
	// retention is how long an ended process is kept, unless there are more than
	// keptProcesses: another program may take over from the caller, and ask the day
	// after. An exec id is refused when it is older than this, less clockSkew.
	retention = 24 * time.Hour
	// keptProcesses is how many ended processes are kept: more than a model
	// starts in hours, at a few kilobytes each.
	keptProcesses = 1000
	// shortWait is how long a start without input waits for the end of the process. A
	// program that does little takes a millisecond, and nobody notices two.
	shortWait = 2 * time.Millisecond

	// drainBytes is how much output a descendant may add if it keeps writing to a slow
	// reader, beyond the bytes that were in the pipe when the process ended: as much as
	// a pipe of pipeSize holds.
	drainBytes = pipeSize
	// pipeSize is the size of a pipe once it was full; reading from it then costs half
	// as many switches. The kernel allows an unprivileged user 1 MiB by default.
	pipeSize = 1 << 20

	// killScans bounds the scans of /proc that one kill makes, so that a
	// descendant which cannot die (in an uninterruptible system call) does not
	// hold the call. A tree that behaves needs four.
	killScans = 64
	// freezeScan is the scan after which a kill stops all processes if it still finds
	// new ones. A tree that behaves needs two.
	freezeScan = 3
	// crowd is the number of processes from which a kill stops all of them at once. A
	// scan takes some 40 µs for each, of which the agent gets little beside so many
	// that run.
	crowd = 256
	// sleepers is how many processes a kill looks at in a crowd, to see which are stopped
	// already: the oldest, within one turn of the processor.
	sleepers = 64
	// endPoll is the pause between two looks of a shutdown for processes that still
	// run: several looks before a person notices.
	endPoll = 10 * time.Millisecond
	// scanPasses bounds how often one scan lists /proc again for processes that
	// started meanwhile. A quiet machine needs two.
	scanPasses = 16
	// rereads is how often one scan reads a process again whose parent has ended since
	// it was read: once, unless the parent is hidden.
	rereads = 3
	// killWait is how long one scan waits for the processes that it killed before the
	// next one looks again: a process without much memory is gone in less.
	killWait = 50 * time.Millisecond

	// clockSkew is by how much the clock of a client may differ from the
	// agent's. Clusters keep theirs within a second.
	clockSkew = 30 * time.Second
	// freshAge is how old an id may be on its first arrival: the difference of the
	// clocks, and some seconds on the way.
	freshAge = clockSkew + 10*time.Second
	// keptCommands is how much the commands of ended processes hold together, in
	// bytes: a thousand scripts of 16 KiB.
	keptCommands = 16 << 20
	// keptTombstones is how many ids of forgotten processes are remembered, at
	// about 15 bytes each, so that they never run twice: more than one a second
	// over retention. Beyond that only ids younger than freshAge are remembered,
	// and older ones are refused.
	keptTombstones = 1 << 17
	// maxTombstones bounds the ids that are remembered in any case: more than
	// processes can be started in freshAge, including ids from clocks that are
	// ahead.
	maxTombstones = 1 << 20
	// graveSpan is the time whose ids are forgotten together.
	graveSpan = 10 * time.Second

	// inlineScript is the longest script that is passed as an argument, in bytes. The
	// kernel takes at most 128 KiB in one (MAX_ARG_STRLEN).
	inlineScript = 100 << 10
	// busyRetries and busyPause bound the repeats of an exec that fails
	// because another fork, in the instant before its own exec, still holds
	// the file open for writing: 1, 2, 4, 8 and 16 ms.
	busyRetries = 5
	busyPause   = time.Millisecond
	// touchFor is how long a start relies on an earlier one that has touched the same program:
	// long enough for starts that come at once. If the server of the program's file system
	// stops answering, those of this time keep their turns, and if they keep all, others wait
	// with them.
	touchFor = 20 * time.Millisecond
	// forksAtOnce is how many processes are started at once: as many as a sandbox usually has
	// processors, so that more do not start sooner. With a thousand at once everything else
	// that the agent does would wait behind them: other calls for a third of a second, and
	// orphans until they are as many as there may be processes.
	forksAtOnce = 4
	// shortWaiters is how many starts wait in a system call of their own, which takes
	// a thread each: as many as a sandbox usually has processors. The others wait
	// in goroutines, which wake together.
	shortWaiters = 4

	// redrawPause is how long a terminal has another size, so that programs which ask
	// for the size only now and then see that it changed.
	redrawPause = 100 * time.Millisecond

	// replayScreen is how far before the end of a terminal's output its screen
	// is looked for, in bytes: full-screen programs draw one in a few KiB.
	replayScreen = 64 << 10
	// screenBlock is the number of bytes for which one start of a line is remembered.
	screenBlock = 1 << 10
	// maxSequence is the longest escape sequence that is understood, in bytes: one that
	// changes a dozen modes.
	maxSequence = 64

	// maxListeners is how many ports a list of those that listen has: far more than a sandbox has servers. A
	// server has one or two addresses, and listenerAddresses of them are told.
	maxListeners      = 1000
	listenerAddresses = 8
	// scannedDescriptors bounds the descriptors that one such list looks at, at a microsecond or two each, and
	// processDescriptors those of a process, so that one with many hides few others. ownDescriptors are more
	// than an agent has.
	scannedDescriptors = 1 << 17
	processDescriptors = 1 << 14
	ownDescriptors     = 1 << 20

	// reapPause is how long an orphan that has ended may stay. A shell makes many,
	// and nobody notices the pause that saves a look for each. It is also how long
	// the reaper waits for an owner whose child is in the way.
	reapPause = 10 * time.Millisecond

	// childOOMScore is how far the oom_score_adj of processes is above the agent's,
	// in thousandths of the memory. The kernel then kills a process of any size
	// before an agent that has less than half of the memory.
	childOOMScore = 500
	// exposeTries and exposePause bound the tries to set that of a process whose exec is not
	// quite over: for a millisecond or two, since an agent that is not root never may if the
	// user may execute the program, but not read it.
	exposeTries = 20
	exposePause = 20 * time.Microsecond
	// maxOOMScore is the kernel's maximum.
	maxOOMScore = 1000
	// guardShare is the part of the memory, one in so many, that the guard keeps free by
	// ending the largest exec, at least guardMinimum and at most guardMaximum bytes: as
	// much as processes take between two looks and while one dies.
	guardShare   = 16
	guardMinimum = 8 << 20
	guardMaximum = 64 << 20
	// guardRate is how fast processes are expected to take memory, in bytes a second:
	// twice the rate of one core that touches page by page, so that one core takes no
	// more than half of the memory left between two looks.
	guardRate = 4 << 30
	// guardReaction is how long the guard takes on a busy machine to look, to find the
	// largest exec and to end it. It expects processes to take memory meanwhile, up to
	// as much again as guardShare says.
	guardReaction = 30 * time.Millisecond
	// guardOften and guardRarely bound the time between two looks. A look costs 10 µs,
	// or 100 µs near the limit; with 512 MiB left the guard looks 8 times a second.
	guardOften  = 2 * time.Millisecond
	guardRarely = time.Second
	// guardPause is how long the memory of an ended exec may take to be free.
	guardPause = 50 * time.Millisecond
	// spareThreads is how many threads are kept in reserve beyond those that run Go
	// code: one for each of 32 callers whose system call blocks, such as a file
	// operation on a slow disk, for each start that waits for its exec or its end, and a
	// few for the agent's own work meanwhile. An unused thread takes some 20 KiB.
	spareThreads = 32 + forksAtOnce + shortWaiters + 4
	// threadShare is the part of a limit of processes, one in so many, that the reserve
	// of threads may take.
	threadShare = 8

	// maxSignal is the last real-time signal.
	maxSignal = 64
)

// limits are the bounds that tests change.
type limits struct {
	// busyPause pauses a start whose program is being written: [time.Sleep].
	busyPause    func(time.Duration)
	shortWait    time.Duration
	drain        time.Duration
	killGrace    time.Duration
	redrawPause  time.Duration
	retention    time.Duration
	skew         time.Duration
	kept         int
	keptCommands int
	tombstones   int
	// Limits are the limits of the journals.
	journal.Limits
}

func defaultLimits() limits {
	return limits{
		busyPause:    time.Sleep,
		shortWait:    shortWait,
		drain:        drainTime,
		killGrace:    killGrace,
		redrawPause:  redrawPause,
		retention:    retention,
		skew:         clockSkew,
		kept:         keptProcesses,
		keptCommands: keptCommands,
		tombstones:   keptTombstones,
		Limits:       journal.DefaultLimits(),
	}
}
