package podapi

import (
	"context"
	"io"
	"sync"
	"sync/atomic"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// outputs bring a command's output to its writers. Each writer has one goroutine
// and a buffer, so that a slow one does not at once hold up the other, or the
// acknowledgements of standard input.
type outputs struct {
	pumps    [2]*pump // of stdout and stderr: the same one for the same writer
	next     [2]int64 // the offsets that come next
	floating bool     // the agent chooses the first offset of stdout
	none     bool     // there is no output, whatever the process writes
	omitted  int64
	at       [2]func(int64) // told where a write begins that does not follow the one before
	apart    [2]bool        // that is so of the next write
	waiting  atomic.Bool    // a writer is slow, and so nothing more is taken from the agent
}

// newOutputs begins to write to the writers, which may be nil. failed is
// called with the first error of a writer.
func newOutputs(stdout, stderr io.Writer, failed func(error)) *outputs {
	o := &outputs{apart: [2]bool{true, true}}
	o.pumps[0] = newPump(stdout, failed)
	if sameWriter(stdout, stderr) {
		o.pumps[1] = o.pumps[0]
	} else {
		o.pumps[1] = newPump(stderr, failed)
	}
	return o
}

// sameWriter reports whether a and b are the same, even if their type cannot be
// compared.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a == b
}

// from sets where the output begins.
func (o *outputs) from(opts *AttachOptions) {
	o.next = [2]int64{opts.StdoutOffset, opts.StderrOffset}
	o.floating, o.none = opts.Screen != nil, opts.NoOutput
}

// add passes on the next chunk of stream 0 or 1. A chunk that does not follow the
// previous one is ErrCut.
func (o *outputs) add(stream int, chunk *pb.OutputChunk) error {
	if err := checkNumbers("an offset of output", chunk.Offset, chunk.Omitted, chunk.Offset-chunk.Omitted); err != nil {
		return err
	}
	if o.none {
		return protocolError("output that was not asked for")
	}
	if o.floating && stream == 0 {
		o.floating = false
		o.next[0] = chunk.Offset - chunk.Omitted
	}
	if chunk.Offset-chunk.Omitted != o.next[stream] {
		return ErrCut
	}
	o.next[stream] = chunk.Offset + int64(len(chunk.Data))
	o.omitted += chunk.Omitted
	o.apart[stream] = o.apart[stream] || chunk.Omitted > 0
	o.waiting.Store(true)
	o.pumps[stream].put(piece{chunk.Data, o.before(stream, chunk)})
	o.waiting.Store(false)
	return nil
}

// before returns what is to be called before a chunk is written; nil for nothing.
func (o *outputs) before(stream int, chunk *pb.OutputChunk) func() {
	if !o.apart[stream] || len(chunk.Data) == 0 {
		return nil
	}
	o.apart[stream] = false
	at, offset := o.at[stream], chunk.Offset
	if at == nil {
		return nil
	}
	return func() { at(offset) }
}

// finish waits until everything is written. If the final lengths differ from those
// received, the error is ErrCut.
func (o *outputs) finish(exit *pb.ExecExit) error {
	for _, p := range o.pumps {
		p.close()
	}
	for _, p := range o.pumps {
		<-p.done
	}
	if exit == nil || o.none || (o.floating || exit.Stdout == o.next[0]) && exit.Stderr == o.next[1] {
		return nil
	}
	return ErrCut
}

// drain waits until the writers have taken all pending output, or ctx ends.
func (o *outputs) drain(ctx context.Context) {
	for _, p := range o.pumps {
		p.drain(ctx)
	}
}

// piece is output that is written at once.
type piece struct {
	data   []byte
	before func() // called before the write, if not nil
}

// pump passes the data put into it to a writer.
type pump struct {
	mu     sync.Mutex
	change sync.Cond
	queue  []piece
	size   int
	busy   bool          // the writer is writing
	closed bool          // no more puts
	broken bool          // no more writes
	done   chan struct{} // closed when all is written
}

func newPump(w io.Writer, failed func(error)) *pump {
	p := &pump{broken: w == nil, done: make(chan struct{})}
	p.change.L = &p.mu
	if w == nil {
		close(p.done)
		return p
	}
	go p.run(w, failed)
	return p
}

func (p *pump) run(w io.Writer, failed func(error)) {
	defer close(p.done)
	for {
		next, ok := p.get()
		if !ok {
			if pipe, own := w.(pipeWriter); own {
				pipe.Close()
			}
			return
		}
		if next.before != nil {
			next.before()
		}
		_, err := w.Write(next.data)
		wire.Recycle(next.data)
		if err != nil {
			failed(err)
			p.mu.Lock()
			p.broken = true
			p.mu.Unlock()
			p.change.Broadcast()
			return
		}
	}
}

// get waits for data, or returns false at the end.
func (p *pump) get() (next piece, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = false
	for len(p.queue) == 0 && !p.closed {
		p.change.Broadcast()
		p.change.Wait()
	}
	if len(p.queue) == 0 {
		return piece{}, false
	}
	p.busy = true
	next = p.queue[0]
	p.queue = p.queue[1:]
	p.size -= len(next.data)
	p.change.Broadcast()
	return next, true
}

// put queues a piece, whose data then belongs to the pump. It waits while the buffer is
// full.
func (p *pump) put(next piece) {
	data := next.data
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.broken && p.size > 0 && p.size+len(data) > outputBuffer {
		p.change.Wait()
	}
	if p.broken || len(data) == 0 {
		wire.Recycle(data)
		return
	}
	p.queue = append(p.queue, next)
	p.size += len(data)
	p.change.Broadcast()
}

// drain waits until all queued data is written, or ctx ends.
func (p *pump) drain(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.change.Broadcast()
	})()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.broken && (p.busy || len(p.queue) > 0) && ctx.Err() == nil {
		p.change.Wait()
	}
}

// close says that there are no more puts.
func (p *pump) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.change.Broadcast()
}

// pipeWriter is the writing side of a pipe that the command made: its reader sees
// the end as soon as that output has ended.
type pipeWriter struct{ *io.PipeWriter }
