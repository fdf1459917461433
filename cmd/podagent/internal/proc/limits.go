package proc

import "time"

// Every bound in time and size of this package.
const (
	// Drain is how long output may still come after a process has ended, while
	// a descendant holds it open. It covers the last writes of a pipeline and
	// is not noticed by a person.
	Drain = 250 * time.Millisecond
	// DrainBytes is how much output, beyond what was in the pipe when the
	// process ended, is taken after Drain from a descendant that keeps writing
	// to a slow reader: as much as a pipe of [PipeSize] holds.
	DrainBytes = PipeSize

	// KillGrace is the time between SIGTERM and SIGKILL at a timeout and at
	// the shutdown: enough to remove a lock file, and far below the 30 s that
	// Kubernetes gives a pod.
	KillGrace = time.Second
	// KillScans bounds the scans of /proc that one kill makes, so that a
	// descendant which cannot die (in an uninterruptible system call) does not
	// hold the call. A tree that behaves needs four.
	KillScans = 64
	// ScanPasses bounds how often one scan lists /proc again for processes that
	// started meanwhile. A quiet machine needs two.
	ScanPasses = 16
	// KillWait is how long one scan waits for those that it killed before the
	// next one looks again: a process without much memory is gone in less.
	KillWait = 50 * time.Millisecond

	// JournalSize is how many bytes of each output are kept, in memory.
	JournalSize = 1 << 20
	// Replay is the part of the journal that stays behind the slowest reader:
	// what was handed over and may be lost with the connection that carried
	// it, so that the reader can ask for it again.
	Replay = JournalSize / 2
	// unread is how far an output may be ahead of its slowest reader.
	unread = JournalSize - Replay
	// StallLimit is how long a reader may take nothing, with the journal full,
	// before it is detached: longer than any pause of a network that still
	// works, shorter than the timeout of whoever waits for the process.
	StallLimit = 10 * time.Second
	// AttachGrace is how long the output of a process is kept complete for a
	// reader that has not come yet, or whose connection dropped: clients dial
	// again within seconds, a restarted API server takes up to half a minute.
	AttachGrace = 30 * time.Second

	// Retention is how long an ended process is kept for readers that come
	// back. An exec id is refused when it is older than this, less ClockSkew.
	Retention = 10 * time.Minute
	// ClockSkew is by how much the clock of a client may differ from the
	// agent's. Clusters keep theirs within a second.
	ClockSkew = 30 * time.Second
	// KeptProcesses is how many ended processes are kept: more than a model
	// starts in [Retention], at a few kilobytes each.
	KeptProcesses = 1000
	// KeptBytes is how much the journals of ended processes hold together, and
	// apart from that their commands. Beyond it the oldest journals go, unless
	// a reader is at them.
	KeptBytes = 16 << 20
	// KeptBytesHard is where the oldest journals of ended processes go though
	// a reader is at them, so that readers cannot exhaust the agent's memory.
	KeptBytesHard = 64 << 20
	// KeptTombstones is how many ids of forgotten processes are remembered, at
	// about 50 bytes each, so that they never run twice: 100 a second over
	// [Retention].
	KeptTombstones = 1 << 16

	// ChunkSize is the size of the buffers that output is read and handed over
	// with: what a pipe holds by default.
	ChunkSize = 64 << 10
	// PipeSize is the size that a pipe gets once it was full; reading from it
	// then costs half as many switches. 1 MiB is what the kernel allows an
	// unprivileged user by default.
	PipeSize = 1 << 20
	// journalStart is what a journal allocates at first: most commands print
	// less.
	journalStart = 4 << 10

	// InlineScript is the longest script that is passed as an argument. The
	// kernel takes at most 128 KiB in one (MAX_ARG_STRLEN).
	InlineScript = 100 << 10
	// busyRetries and busyPause bound the repeats of an exec that fails
	// because another fork, in the instant before its own exec, still holds
	// the file open for writing: 1, 2, 4, 8 and 16 ms.
	busyRetries = 5
	busyPause   = time.Millisecond

	// statSize holds any /proc/PID/stat: 52 numbers and a short name.
	statSize = 4 << 10
	// maxSignal is the last real-time signal.
	maxSignal = 64
)

// limits are the bounds that tests shorten.
type limits struct {
	drain       time.Duration
	killGrace   time.Duration
	stall       time.Duration
	attachGrace time.Duration
	retention   time.Duration
	skew        time.Duration
	kept        int
	keptBytes   int
	keptHard    int
	tombstones  int
}

func defaultLimits() limits {
	return limits{
		drain:       Drain,
		killGrace:   KillGrace,
		stall:       StallLimit,
		attachGrace: AttachGrace,
		retention:   Retention,
		skew:        ClockSkew,
		kept:        KeptProcesses,
		keptBytes:   KeptBytes,
		keptHard:    KeptBytesHard,
		tombstones:  KeptTombstones,
	}
}
