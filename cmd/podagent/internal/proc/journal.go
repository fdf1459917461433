package proc

// journal keeps the newest bytes of one output under their offsets from its
// start, as many as its ring holds. It is guarded by the mutex of its owner,
// who also decides on the size of the ring.
type journal struct {
	// The byte at offset o, for start <= o < end, is ring[o % len(ring)].
	ring       []byte
	start, end int64
}

// append adds b, and drops what the ring has no room for.
func (j *journal) append(b []byte) {
	if skip := len(b) - len(j.ring); skip > 0 {
		j.end += int64(skip)
		j.start = j.end
		b = b[skip:]
	}
	for len(b) > 0 {
		n := copy(j.ring[j.end%int64(len(j.ring)):], b)
		j.end += int64(n)
		b = b[n:]
	}
	j.start = max(j.start, j.end-int64(len(j.ring)))
}

// readAt copies bytes from off on into b and returns their number, which is 0
// at the end. It expects start <= off <= end.
func (j *journal) readAt(b []byte, off int64) int {
	n := 0
	for n < len(b) && off+int64(n) < j.end {
		n += copy(b[n:], j.run(off+int64(n)))
	}
	return n
}

// held is the number of bytes that can be read.
func (j *journal) held() int { return int(j.end - j.start) }

// drop forgets all bytes, but not where the output ended.
func (j *journal) drop() {
	j.start, j.ring = j.end, nil
}

// run returns the held bytes from off on that lie in one piece.
func (j *journal) run(off int64) []byte {
	i := off % int64(len(j.ring))
	return j.ring[i:min(int64(len(j.ring)), i+j.end-off)]
}

// sizeFor is the size that the ring should have to hold so many bytes. It
// never gets smaller, and doubles, so that bytes are rarely moved.
func (j *journal) sizeFor(need int) int {
	size := max(len(j.ring), journalStart)
	for size < need {
		size *= 2
	}
	return size
}

// resize gives the ring a size, and drops the oldest bytes that it cannot hold
// any more.
func (j *journal) resize(size int) {
	ring := make([]byte, size)
	j.start = max(j.start, j.end-int64(size))
	for off := j.start; off < j.end; {
		off += int64(copy(ring[off%int64(size):], j.run(off)))
	}
	j.ring = ring
}
