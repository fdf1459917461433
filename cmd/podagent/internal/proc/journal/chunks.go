package journal

import "sync"

// Chunks lends out the buffers that output passes through, so that a silent process holds
// none. Segments in memory are made of them, too.
type Chunks struct{ pool sync.Pool }

// Chunk is such a buffer.
type Chunk [ChunkSize]byte

// Get returns a chunk with arbitrary content.
func (c *Chunks) Get() *Chunk {
	if b, ok := c.pool.Get().(*Chunk); ok {
		return b
	}
	return new(Chunk)
}

// Put takes a chunk back.
func (c *Chunks) Put(b *Chunk) { c.pool.Put(b) }

// segment returns memory for a segment, and putSegment takes it back.
func (c *Chunks) segment(size int) []byte {
	if size == ChunkSize {
		return c.Get()[:]
	}
	return make([]byte, size)
}

func (c *Chunks) putSegment(memory []byte) {
	if len(memory) == ChunkSize {
		c.Put((*Chunk)(memory))
	}
}
