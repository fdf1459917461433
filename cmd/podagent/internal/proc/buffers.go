package proc

import "sync"

// buffers lends out the chunks that output passes through, so that a process
// which is silent holds none.
type buffers struct{ pool sync.Pool }

type chunk [chunkSize]byte

func (b *buffers) get() *chunk {
	if c, ok := b.pool.Get().(*chunk); ok {
		return c
	}
	return new(chunk)
}

func (b *buffers) put(c *chunk) { b.pool.Put(c) }
