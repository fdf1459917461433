// Package journal keeps the newest output of processes under its byte offsets, in memory or
// on disk, and hands it to readers. It knows bytes, offsets and time, and no process.
//
// An [Output] has two streams. One writer for each adds to it ([Stream.Append]); readers
// attach at an offset ([Output.Attach]) and get every byte after it exactly once. While
// somebody reads, or is expected to, nothing is dropped that they need: a full journal
// then makes the writer wait. A [Budget] bounds what all outputs take together.
//
// The comment on [Output] says how an output is locked.
package journal

import "slices"

// medium is where bytes are kept.
type medium int

const (
	inMemory medium = iota
	onDisk
)

// segment is a part of a journal: in memory, or in a slot of the store.
type segment struct {
	// off is the offset in the stream of its first byte, n how many bytes it
	// holds and size how many it has room for.
	off     int64
	n, size int
	// full says that nothing more is added.
	full bool
	// born orders the segments of a process.
	born int64
	// memory is nil where the bytes are in the store, at slot.
	memory []byte
	slot   int64
}

func (g *segment) end() int64 { return g.off + int64(g.n) }

// left is how many bytes can be added.
func (g *segment) left() int {
	if g.full {
		return 0
	}
	return g.size - g.n
}

func (g *segment) medium() medium {
	if g.memory != nil {
		return inMemory
	}
	return onDisk
}

// journal keeps the newest bytes of one stream under their offsets: those from
// start to end. The output decides which segments it has.
type journal struct {
	start, end int64
	// segments follow each other without gaps. The first may begin before
	// start.
	segments []*segment
}

// last returns the segment that bytes are added to, or nil.
func (j *journal) last() *segment {
	if len(j.segments) == 0 {
		return nil
	}
	return j.segments[len(j.segments)-1]
}

// add makes g the last segment.
func (j *journal) add(g *segment) {
	g.off = j.end
	j.segments = append(j.segments, g)
}

// removeLast takes back the last segment, which holds nothing.
func (j *journal) removeLast() { j.segments = j.segments[:len(j.segments)-1] }

// grow counts n bytes that were put into the last segment.
func (j *journal) grow(n int) {
	j.last().n += n
	j.end += int64(n)
}

// at returns the segment that holds the byte at off; start <= off < end.
func (j *journal) at(off int64) *segment {
	i, _ := slices.BinarySearchFunc(j.segments, off, func(g *segment, off int64) int {
		if g.end() <= off {
			return -1
		}
		return 1
	})
	return j.segments[i]
}

// dropOldest forgets the first segment.
func (j *journal) dropOldest() {
	j.skipTo(j.segments[0].end())
	j.segments[0] = nil
	j.segments = j.segments[1:]
}

// skipTo forgets the bytes before off.
func (j *journal) skipTo(off int64) { j.start = max(j.start, min(off, j.end)) }

// held is the number of bytes that can be read.
func (j *journal) held() int { return int(j.end - j.start) }

// tailInMemory returns the newest segments in memory, as many as hold no more than limit
// bytes together, and how many bytes they hold. It stops at the last segment on disk.
func (j *journal) tailInMemory(limit int) (tail []*segment, n int) {
	i := len(j.segments)
	for i > 0 && j.segments[i-1].medium() == inMemory && n+j.segments[i-1].n <= limit {
		i--
		n += j.segments[i].n
	}
	return slices.Clone(j.segments[i:]), n
}

// replace puts g in place of the last segments, from the one that begins where g does.
// If some of them were dropped meanwhile, their bytes in g are before start.
func (j *journal) replace(g *segment) (gone []*segment) {
	i := len(j.segments)
	for i > 0 && j.segments[i-1].off >= g.off {
		i--
	}
	gone = slices.Clone(j.segments[i:])
	j.segments = append(j.segments[:i], g)
	return gone
}

// first returns the first segment on a medium, unless it is the last of all.
func (j *journal) first(m medium) *segment {
	for i, g := range j.segments {
		if g.medium() == m && i < len(j.segments)-1 {
			return g
		}
	}
	return nil
}

// count is the number of segments on a medium, and size their size.
func (j *journal) count(m medium) int {
	n, _ := j.on(m)
	return n
}

func (j *journal) size(m medium) int {
	_, size := j.on(m)
	return size
}

func (j *journal) on(m medium) (n, size int) {
	for _, g := range j.segments {
		if g.medium() == m {
			n++
			size += g.size
		}
	}
	return n, size
}
