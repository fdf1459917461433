package sshserver

import (
	"bytes"
	"slices"
	"time"
)

// block is a piece of a file that begins at a multiple of its size.
type block struct {
	offset int64
	data   []byte
	err    error
	ready  chan struct{} // closed when data and err are set

	// What follows is used with the reader's mu.
	held    int64 // what the room has counted for it
	fetched bool  // it is ready
	dropped bool  // the reader has forgotten it
}

// want keeps a block that somebody fetches, and that has its room, in place of the oldest. It is called with mu.
func (r *reader) want(offset int64) *block {
	b := &block{offset: offset, ready: make(chan struct{}), held: readAhead}
	r.blocks = append(r.blocks, b)
	if len(r.blocks) > keptBlocks {
		r.dropped(r.blocks[0])
		r.blocks = slices.Delete(r.blocks, 0, 1)
	}
	return b
}

// dropped notes that a block is not among those that are kept any more. It is called with mu.
func (r *reader) dropped(b *block) {
	b.dropped = true
	r.settle(b)
}

// fetched notes that a block is ready.
func (r *reader) fetched(b *block) {
	if cap(b.data) > len(b.data) {
		b.data = bytes.Clone(b.data)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b.fetched = true
	r.settle(b)
	close(b.ready)
}

// settle gives back what a block does not need of the room: once it is fetched, what the file has less than a block,
// and all if it is dropped, too. It is called with mu.
func (r *reader) settle(b *block) {
	if !b.fetched {
		return
	}
	needs := int64(len(b.data))
	if b.dropped {
		needs = 0
	}
	r.room.give(b.held - needs)
	b.held = needs
}

// kept returns the block at offset if it is kept, or nil. It is called with mu.
func (r *reader) kept(offset int64) *block {
	for _, b := range r.blocks {
		if b.offset == offset {
			return b
		}
	}
	return nil
}

// use has what is kept stay until done is called, and for a while after that: a client that reads no more, but does
// not close the file, is to take no memory.
func (r *reader) use() (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if r.unused == nil {
		r.unused = time.AfterFunc(r.idle, r.forgetUnused)
	}
	r.unused.Stop()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reads--; r.reads == 0 && !r.closed {
			r.unused.Reset(r.idle)
		}
	}
}

// forgetUnused forgets what is kept and fetched, if nobody reads.
func (r *reader) forgetUnused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reads == 0 {
		r.forget()
	}
}

// forget forgets what is kept and fetched. It is called with mu.
func (r *reader) forget() {
	r.endStretch()
	for _, b := range r.blocks {
		r.dropped(b)
	}
	r.blocks = nil
}

// drop forgets a block.
func (r *reader) drop(old *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.blocks {
		if b == old {
			r.blocks = slices.Delete(r.blocks, i, i+1)
			r.dropped(b)
			return
		}
	}
}
