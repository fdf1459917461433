package sshserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/podagent/podagent/pkg/fsops"
)

// stretch is blocks that follow each other, by one call if they are more than one. The call waits where nobody
// wants the next block yet, and what the agent sends meanwhile waits in memory, up to the length of the stretch. So a
// stretch is twice as long as the one that it continues, up to longestStretch, and one that begins elsewhere has one
// block.
type stretch struct {
	start, end int64       // offsets in the file
	next       int64       // the first block that is not in todo yet
	todo       chan *block // what is wanted, in order; it has room for all, and is closed when no more follow
	held       int64       // what the reader's room has counted for those that are not wanted yet
}

func (s *stretch) blocks() int64 { return (s.end - s.start) / readAhead }

// block returns the block at offset, which it begins to fetch if it is not kept, with those that follow once
// the client reads in order. It returns nil if there is no room for one.
func (r *reader) block(offset int64) (*block, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, fs.ErrClosed
	}
	b, near := r.kept(offset), r.isNear(offset)
	switch full := r.fetches >= maxFetches; {
	case full && b == nil:
		return nil, &fs.PathError{Op: "read", Path: r.name, Err: errStalled}
	case full:
		return b, nil
	case b != nil && !near:
		return b, nil
	case b == nil && !near:
		if !r.begin(offset, 1) {
			return nil, nil
		}
	case b == nil && offset < r.stretch.next: // it was kept
		if !r.room.take(readAhead) {
			return nil, nil
		}
		b = r.want(offset)
		r.run(func() { r.fill(b) })
	}
	r.fetchUntil(offset)
	if b == nil {
		b = r.kept(offset)
	}
	return b, nil
}

// isNear reports whether a read belongs to those that the stretch is for. Those that are under way at once are
// not quite in order. It is called with mu.
func (r *reader) isNear(offset int64) bool {
	if r.stretch == nil {
		return false
	}
	last := r.stretch.next
	if r.stretch.blocks() > 1 {
		last += blocksAhead * readAhead
	}
	return r.stretch.next-keptBlocks*readAhead <= offset && offset <= last
}

// fetchUntil has the stretch fetch what is not yet fetched up to the block at offset, and some blocks in front of it
// unless the file is read for the first time here, or there is no room. It is called with mu.
func (r *reader) fetchUntil(offset int64) {
	ahead := offset
	if offset > r.stretch.start || r.stretch.blocks() > 1 {
		ahead += blocksAhead * readAhead
	}
	for r.stretch.next <= offset || r.stretch.next <= ahead && r.stretch.next < r.size {
		if r.stretch.next == r.stretch.end && !r.begin(r.stretch.end, 2*r.stretch.blocks()) {
			return
		}
		r.stretch.held -= readAhead // it is the block's now
		r.stretch.todo <- r.want(r.stretch.next)
		r.stretch.next += readAhead
	}
}

// begin begins a stretch of this many blocks in place of the present one, or of fewer if the file ends before, or
// there is no room for all. It returns false, and changes nothing, if there is none for one. It is called with mu.
func (r *reader) begin(start, blocks int64) bool {
	left := (r.size - start + readAhead - 1) / readAhead
	blocks = max(1, min(blocks, left, longestStretch))
	for !r.room.take(blocks * readAhead) {
		if blocks /= 2; blocks == 0 {
			return false
		}
	}
	r.endStretch()
	next := &stretch{start: start, next: start, end: start + blocks*readAhead, todo: make(chan *block, blocks), held: blocks * readAhead}
	r.stretch = next
	r.run(func() { r.fetch(next) })
	return true
}

// endStretch has the present stretch fetch what was wanted, and no more. It is called with mu.
func (r *reader) endStretch() {
	if r.stretch != nil {
		close(r.stretch.todo)
	}
	r.stretch = nil
}

// errStalled says that the agent does not answer.
var errStalled = fmt.Errorf("%d reads of the file wait for the sandbox, and no more may", maxFetches)

// run runs a call in a goroutine, and counts it. It is called with mu.
func (r *reader) run(call func()) {
	r.fetches++
	go func() {
		call()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fetches--
	}()
}

// fetch fetches the blocks of a stretch. If their call ends early, each of the others gets its own.
func (r *reader) fetch(stretch *stretch) {
	defer r.over(stretch)
	if stretch.blocks() > 1 {
		f := filler{reader: r, stretch: stretch}
		_, err := r.client.Read(r.ctx, r.name, &f, fsops.ReadOptions{Offset: stretch.start, Length: stretch.end - stretch.start})
		switch {
		case f.block == nil:
		case err == nil: // the end of the file
			r.fetched(f.block)
		default:
			r.fill(f.block)
		}
	}
	for b := range stretch.todo {
		r.fill(b)
	}
}

// over notes that a stretch fetches no more.
func (r *reader) over(s *stretch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.room.give(s.held)
	s.held = 0
}

// fill fetches one block.
func (r *reader) fill(b *block) {
	defer r.fetched(b)
	data := bytes.NewBuffer(r.newData(b))
	_, b.err = r.client.Read(r.ctx, r.name, data, fsops.ReadOptions{Offset: b.offset, Length: readAhead})
	b.data = data.Bytes()
}

// newData returns what a block of the file needs, if the file has not grown.
func (r *reader) newData(b *block) []byte {
	return make([]byte, 0, min(readAhead, max(r.size-b.offset, 0)))
}

// filler writes what comes into the blocks of a stretch.
type filler struct {
	reader  *reader
	stretch *stretch
	block   *block // what is not full yet
}

// errNotWanted ends the call of a stretch that was given up.
var errNotWanted = errors.New("the client reads elsewhere")

// Write implements io.Writer. It waits until somebody wants the block.
func (f *filler) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if f.block == nil {
			b, ok := <-f.stretch.todo
			if !ok {
				return n, errNotWanted
			}
			b.data = f.reader.newData(b)
			f.block = b
		}
		part := p[n:min(len(p), n+readAhead-len(f.block.data))]
		f.block.data = append(f.block.data, part...)
		n += len(part)
		if len(f.block.data) == readAhead {
			f.reader.fetched(f.block)
			f.block = nil
		}
	}
	return n, nil
}
