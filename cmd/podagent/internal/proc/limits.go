package proc

import "time"

// Every bound in time and size of this package.
const (
	// drainTime is how long output may still come after a process has ended,
	// while a descendant holds it open. It covers the last writes of a pipeline
	// and is not noticed by a person.
	drainTime = 250 * time.Millisecond
	// drainBytes is how much output, beyond what was in the pipe when the
	// process ended, is taken after drainTime from a descendant that keeps
	// writing to a slow reader: as much as a pipe of pipeSize holds.
	drainBytes = pipeSize

	// killGrace is the time between SIGTERM and SIGKILL at a timeout and at
	// the shutdown: enough to remove a lock file, and far below the 30 s that
	// Kubernetes gives a pod.
	killGrace = time.Second
	// killScans bounds the scans of /proc that one kill makes, so that a
	// descendant which cannot die (in an uninterruptible system call) does not
	// hold the call. A tree that behaves needs four.
	killScans = 64
	// scanPasses bounds how often one scan lists /proc again for processes that
	// started meanwhile. A quiet machine needs two.
	scanPasses = 16
	// killWait is how long one scan waits for those that it killed before the
	// next one looks again: a process without much memory is gone in less.
	killWait = 50 * time.Millisecond

	// JournalSize is how many bytes of each output are kept, in memory, unless
	// there are so many outputs that journalTotal leaves less for each.
	JournalSize = 1 << 20
	// replay is the part of the journal that stays behind the slowest reader:
	// what was handed over and may be lost with the connection that carried
	// it, so that the reader can ask for it again. It is less, half of the
	// journal, where journalTotal made that smaller.
	replay = JournalSize / 2
	// unread is how far an output may be ahead of its slowest reader.
	unread = JournalSize - replay
	// journalTotal is what all journals, of running and ended processes, take
	// together, so that the agent fits into a small sandbox however many
	// processes print. When it is reached, an output that nobody reads keeps
	// less, and one that is read makes its process wait earlier. Only the
	// minimums of very many processes go beyond it.
	journalTotal = 64 << 20
	// journalMin is what every journal gets, so that all processes make
	// progress: as much as one read of a pipe brings.
	journalMin = chunkSize
	// journalSpare is the part of journalTotal into which journals do not grow
	// beyond their minimum, so that those of processes which start later have
	// room for theirs: 128 processes with two full outputs.
	journalSpare = journalTotal / 4
	// reclaimPause is how long nobody looks again for memory to reclaim when
	// there was not enough: to look at every journal for each piece of output
	// would slow all down, and the pause is not noticed.
	reclaimPause = 10 * time.Millisecond
	// stallLimit is how long a reader may take nothing, with the journal full,
	// before it is detached: longer than any pause of a network that still
	// works, shorter than the timeout of whoever waits for the process.
	stallLimit = 10 * time.Second
	// attachGrace is how long the output of a process is kept complete for a
	// reader that has not come yet, or whose connection dropped: clients dial
	// again within seconds, a restarted API server takes up to half a minute.
	attachGrace = 30 * time.Second

	// retention is how long an ended process is kept for readers that come
	// back. An exec id is refused when it is older than this, less clockSkew.
	retention = 10 * time.Minute
	// clockSkew is by how much the clock of a client may differ from the
	// agent's. Clusters keep theirs within a second.
	clockSkew = 30 * time.Second
	// keptProcesses is how many ended processes are kept: more than a model
	// starts in retention, at a few kilobytes each.
	keptProcesses = 1000
	// keptCommands is how much the commands of ended processes hold together:
	// a thousand scripts of 16 KiB.
	keptCommands = 16 << 20
	// keptTombstones is how many ids of forgotten processes are remembered, at
	// about 50 bytes each, so that they never run twice: 100 a second over
	// retention.
	keptTombstones = 1 << 16

	// chunkSize is the size of the buffers that output is read and handed over
	// with: what a pipe holds by default.
	chunkSize = 64 << 10
	// pipeSize is the size that a pipe gets once it was full; reading from it
	// then costs half as many switches. 1 MiB is what the kernel allows an
	// unprivileged user by default.
	pipeSize = 1 << 20
	// journalStart is what a journal allocates at first: most commands print
	// less. JournalSize and journalMin are this doubled several times.
	journalStart = 4 << 10

	// inlineScript is the longest script that is passed as an argument. The
	// kernel takes at most 128 KiB in one (MAX_ARG_STRLEN).
	inlineScript = 100 << 10
	// busyRetries and busyPause bound the repeats of an exec that fails
	// because another fork, in the instant before its own exec, still holds
	// the file open for writing: 1, 2, 4, 8 and 16 ms.
	busyRetries = 5
	busyPause   = time.Millisecond

	// direntSize is how much of /proc's listing is read at once: a thousand
	// names.
	direntSize = 32 << 10
	// statSize holds any /proc/PID/stat: 52 numbers and a short name.
	statSize = 4 << 10
	// maxSignal is the last real-time signal.
	maxSignal = 64
)

// limits are the bounds that tests shorten.
type limits struct {
	drain        time.Duration
	killGrace    time.Duration
	stall        time.Duration
	attachGrace  time.Duration
	retention    time.Duration
	skew         time.Duration
	kept         int
	keptCommands int
	journals     int
	tombstones   int
}

func defaultLimits() limits {
	return limits{
		drain:        drainTime,
		killGrace:    killGrace,
		stall:        stallLimit,
		attachGrace:  attachGrace,
		retention:    retention,
		skew:         clockSkew,
		kept:         keptProcesses,
		keptCommands: keptCommands,
		journals:     journalTotal,
		tombstones:   keptTombstones,
	}
}

// growth is up to where journals may grow beyond their minimum.
func (l *limits) growth() int { return l.journals - l.journals*journalSpare/journalTotal }
