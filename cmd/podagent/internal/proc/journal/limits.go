package journal

import "time"

// Every bound in time and size of this package. The first four are promises to readers;
// the rest is how they are kept.
const (
	// processSize is how many bytes of a process's output are kept on disk, of both
	// streams together: the output of a long build. totalSize is that of all
	// processes: the output of more builds than a sandbox runs in a day, and little
	// of a node's disk. Output is dropped in segments, so that up to slotMax less is
	// kept.
	processSize = 64 << 20
	totalSize   = 1 << 30
	// attachGrace is how long the output of a process is kept complete for a reader that
	// has not attached yet, or whose connection dropped: clients dial again within
	// seconds, and a restarted API server takes up to half a minute.
	attachGrace = 30 * time.Second
	// stallLimit is how long a reader may take nothing, with the journal full,
	// before it is detached: longer than any pause of a network that still
	// works, shorter than the timeouts of callers that wait for the process.
	stallLimit = 10 * time.Second
	// replay is how many bytes of a stream are kept behind its slowest reader. A
	// connection that breaks may lose bytes that were handed over, and the reader
	// asks for them again. Those are the bytes that the other side's window lets
	// through before it has read them (16 MiB for the Go client, which is more than
	// any default), and a message or two that wait here. It is no larger: bytes kept
	// for replay are not available as read-ahead, by which a process runs on before
	// a slow reader.
	replay = 17 << 20
	// diskShare is the part of its file system, one in so many, that totalSize never
	// exceeds: a small file system is there for the sandbox's files.
	diskShare = 8

	// memorySize, memoryReplay and memoryTotal are the same where journals are kept in
	// memory, so that the agent fits into a small sandbox however many processes
	// print. A cut connection may then lose more than is kept, and the reader is told
	// so.
	memorySize   = 2 << 20
	memoryReplay = memorySize / 4
	memoryTotal  = 64 << 20
	// minSize is what a stream gets in memory in any case, so that all
	// processes make progress: as much as one read of a pipe brings. Only the
	// minimums of very many processes go beyond memoryTotal.
	minSize = ChunkSize
	// memorySpare is the part of memoryTotal into which journals do not grow
	// beyond their minimum, so that those of processes which start later have
	// room for theirs: 128 processes with two full outputs.
	memorySpare = memoryTotal / 4

	// slotMin and slotMax are the sizes of the first and of the largest segments on
	// disk, in bytes. A short output should not take much, and a long one few
	// segments. A dropped segment of slotMax is a 64th of the output.
	slotMin = 64 << 10
	slotMax = 1 << 20
	// headSize is how much of a stream is kept in memory before it moves to the disk:
	// most commands print less. headTotal is what these heads take together. Beyond
	// it short outputs begin on disk, where they take a few microseconds longer.
	headSize  = slotMin
	headTotal = memoryTotal / 4
	// firstSize is what a journal allocates at first, in bytes, and then doubles: most
	// commands print less.
	firstSize = 1 << 10
	// trimDelay is how long a freed segment stays as it is on disk. A full output
	// frees a segment for each that it takes, thousands a second, and a hole takes as
	// long to make as to fill.
	trimDelay = time.Second
	// diskPause is how long nothing is written to a disk that was full or has failed, so
	// that not every output pays for an attempt.
	diskPause = 5 * time.Second
	// reclaimPause is the time between two searches for room to reclaim, after one that
	// found too little. Searching every journal for each piece of output would slow all
	// outputs down, and nobody notices the pause.
	reclaimPause = 10 * time.Millisecond
)

// ChunkSize is the size of a [Chunk] in bytes, and how much output is handed over at
// once: what a pipe holds by default.
const ChunkSize = 64 << 10

// Bounds are those of journals on one medium, in bytes.
type Bounds struct {
	// Process bounds both streams of a process together, and Replay the bytes kept
	// behind the slowest reader of each.
	Process, Replay int
	// Total bounds all processes together. Its last Spare bytes are for minimums.
	Total, Spare int
}

// growth is up to where journals may grow beyond their minimum.
func (b *Bounds) growth() int { return b.Total - b.Spare }

// largest is the size of the largest segments, at most most. It is so small that a
// process always has a segment that it does not need any more.
func (b *Bounds) largest(most int) int { return min(most, b.Process/16) }

// Limits are the bounds that tests change.
type Limits struct {
	Memory, Disk Bounds
	// Stall is how long a reader may hold the writer up and take nothing.
	Stall time.Duration
	// AttachGrace is how long a reader is expected, after the start and after it left.
	AttachGrace time.Duration
}

// DefaultLimits returns the limits for use outside of tests.
func DefaultLimits() Limits {
	return Limits{
		Memory:      Bounds{Process: memorySize, Replay: memoryReplay, Total: memoryTotal, Spare: memorySpare},
		Disk:        Bounds{Process: processSize, Replay: replay, Total: totalSize},
		Stall:       stallLimit,
		AttachGrace: attachGrace,
	}
}

// bounds returns those of a medium.
func (l *Limits) bounds(m medium) *Bounds {
	if m == onDisk {
		return &l.Disk
	}
	return &l.Memory
}
