package proc

// journal keeps the newest bytes of one output under their offsets from its
// start. It grows as needed up to its limit; then the oldest bytes go. It is
// guarded by the mutex of its owner.
type journal struct {
	limit int
	// The byte at offset o, for start <= o < end, is ring[o % len(ring)].
	ring       []byte
	start, end int64
}

// append adds b, and drops what the limit leaves no room for.
func (j *journal) append(b []byte) {
	if skip := len(b) - j.limit; skip > 0 {
		j.end += int64(skip)
		j.start = j.end
		b = b[skip:]
	}
	j.grow(min(j.held()+len(b), j.limit))
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

func (j *journal) grow(need int) {
	if need <= len(j.ring) {
		return
	}
	size := max(len(j.ring), journalStart)
	for size < need {
		size *= 2
	}
	ring := make([]byte, min(size, j.limit))
	for off := j.start; off < j.end; {
		off += int64(copy(ring[off%int64(len(ring)):], j.run(off)))
	}
	j.ring = ring
}
