package proc

import "sync"

// buffers lends out the chunks that output passes through, so that a process
// which is silent holds none. Segments of a journal in memory are made of them,
// too.
type buffers struct{ pool sync.Pool }

type chunk [chunkSize]byte

func (b *buffers) get() *chunk {
	if c, ok := b.pool.Get().(*chunk); ok {
		return c
	}
	return new(chunk)
}

func (b *buffers) put(c *chunk) { b.pool.Put(c) }

// segment returns memory for a segment, and putSegment takes it back.
func (b *buffers) segment(size int) []byte {
	if size == chunkSize {
		return b.get()[:]
	}
	return make([]byte, size)
}

func (b *buffers) putSegment(memory []byte) {
	if len(memory) == chunkSize {
		b.put((*chunk)(memory))
	}
}
