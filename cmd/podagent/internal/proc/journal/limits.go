package journal

import "time"

// Every bound in time and size of this package. The first four are promises to readers;
// the rest is how they are kept.
const (
	// processSize is how many bytes of the output of a process are kept on
	// disk, of both streams together, and totalSize of all processes: the
	// output of a long build, of more builds than a sandbox runs in a day, and
	// little of the disk of a node. What is dropped goes in segments, so that
	// up to slotMax less is kept.
	processSize = 64 << 20
	totalSize   = 1 << 30
	// attachGrace is how long the output of a process is kept complete for a
	// reader that has not come yet, or whose connection dropped: clients dial
	// again within seconds, a restarted API server takes up to half a minute.
	attachGrace = 30 * time.Second
	// stallLimit is how long a reader may take nothing, with the journal full,
	// before it is detached: longer than any pause of a network that still
	// works, shorter than the timeout of whoever waits for the process.
	stallLimit = 10 * time.Second
	// replay is the part of a stream that stays behind its slowest reader: what
	// was handed over and may be lost with the connection that carried it, so
	// that the reader can ask for it again. Those are the bytes that the other
	// side's window lets through before it has read them (16 MiB for the Go
	// client, and more than any default), and the message or two that wait for
	// it here. It is no more than needed: bytes that are kept for replay leave
	// less room ahead, where the process could run on before a slow reader.
	replay = 17 << 20
	// diskShare is the part of its file system, one in so many, that
	// totalSize never exceeds: a small one is there for the sandbox's files.
	diskShare = 8

	// memorySize, memoryReplay and memoryTotal are the same where journals are
	// kept in memory, so that the agent fits into a small sandbox however many
	// processes print. A cut connection may then lose more than is kept, which
	// the reader is told.
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

	// slotMin and slotMax are the sizes of the first and of the largest
	// segments on disk. A short output should not take much, and a long one few
	// segments; to drop a segment of slotMax costs a 64th of the output.
	slotMin = 64 << 10
	slotMax = 1 << 20
	// headSize is how much of a stream is kept in memory before it moves to
	// the disk, as most commands print less, and headTotal what those heads take
	// together: with more, short outputs begin on disk, where they take a few
	// microseconds longer.
	headSize  = slotMin
	headTotal = memoryTotal / 4
	// firstSize is what a journal allocates at first, and then doubles: most
	// commands print less.
	firstSize = 1 << 10
	// trimDelay is how long a freed segment stays as it is on disk. A full
	// output frees one for each that it takes, thousands a second, and it takes
	// as long to make a hole as to fill it.
	trimDelay = time.Second
	// diskPause is how long nothing is written to a disk that was full or
	// failed, so that not every output pays for trying.
	diskPause = 5 * time.Second
	// reclaimPause is how long nobody looks again for room to reclaim when
	// there was not enough. A look at every journal for each piece of output
	// would slow all down, and nobody notices the pause.
	reclaimPause = 10 * time.Millisecond
)

// ChunkSize is the size of a [Chunk], and how much output is handed over at once: what a
// pipe holds by default.
const ChunkSize = 64 << 10

// Bounds are those of journals on one medium, in bytes.
type Bounds struct {
	// Process is what both streams of a process take together, and Replay what
	// stays behind the slowest reader of each.
	Process, Replay int
	// Total is what all processes take together. The last Spare bytes of it
	// are for minimums.
	Total, Spare int
}

// growth is up to where journals may grow beyond their minimum.
func (b *Bounds) growth() int { return b.Total - b.Spare }

// largest is the size of the largest segments, but no more than most. They are so small
// that a process always has one that is not needed any more.
func (b *Bounds) largest(most int) int { return min(most, b.Process/16) }

// Limits are the bounds that tests change.
type Limits struct {
	Memory, Disk Bounds
	// Stall is how long a reader may hold the writer up and take nothing.
	Stall time.Duration
	// AttachGrace is how long a reader is expected, at first and after it left.
	AttachGrace time.Duration
}

// DefaultLimits returns the limits of the product.
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
