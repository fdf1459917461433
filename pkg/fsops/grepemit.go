package fsops

import (
	"sync"
	"unsafe"
)

// A grepEmitter collects a worker's results, and hands them over in batches.
type grepEmitter struct {
	outlet grepOutlet
	spare  *grepBatches
	batch  []GrepResult
	size   int    // bytes that the batch holds
	texts  []byte // where the next texts go
	// aside notes everything but results.
	aside *grepAside
}

// grepBatches are batches to be filled again: the taker has copied their results.
type grepBatches struct{ pool sync.Pool }

// get returns an empty batch. A new one has no room yet, as most searches find little.
func (b *grepBatches) get() []GrepResult {
	if batch, ok := b.pool.Get().(*[]GrepResult); ok {
		return (*batch)[:0]
	}
	return nil
}

func (b *grepBatches) put(batch []GrepResult) {
	clear(batch) // holds on to nothing
	b.pool.Put(&batch)
}

// A grepOutlet carries a worker's results to the taker.
type grepOutlet interface {
	// send hands over a batch in the midst of a file's results. It fails when
	// the search was cancelled, as the other methods do.
	send(batch []GrepResult) error
	// offer is send if that need not wait. It reports whether it sent the batch.
	offer(batch []GrepResult) bool
	// end ends a file's results. It reports whether it handed over the batch. It
	// need not do so if the batch holds all of them.
	end(batch []GrepResult) (taken bool, err error)
	// admit waits until a worker may have a large buffer for its file.
	admit(memory *budget) (done func(), err error)
}

// emit adds a result of a file whose search goes on.
func (e *grepEmitter) emit(r GrepResult) error {
	if e.batch == nil {
		e.batch = e.spare.get()
	}
	e.batch = append(e.batch, r)
	e.size += r.size()
	if len(e.batch) < grepBatch && e.size < grepBatchSize {
		return nil
	}
	err := e.outlet.send(e.batch)
	e.clear()
	return err
}

// size is about how many bytes a result takes alone, without those that it shares.
func (r *GrepResult) size() int {
	return len(r.Text) + len(r.Path) + len(r.Spans)*int(unsafe.Sizeof(Span{}))
}

// offer hands over the batch in the midst of a file, if it need not wait.
func (e *grepEmitter) offer() {
	if len(e.batch) > 0 && e.outlet.offer(e.batch) {
		e.clear()
	}
}

// end ends a file's results.
func (e *grepEmitter) end() error {
	taken, err := e.outlet.end(e.batch)
	if taken {
		e.clear()
	}
	return err
}

func (e *grepEmitter) clear() { e.batch, e.size = nil, 0 }

// clone returns a copy of text for a result. The copies of several share their
// memory.
func (e *grepEmitter) clone(text []byte) []byte {
	if len(text) > cap(e.texts)-len(e.texts) {
		e.texts = make([]byte, 0, max(len(text), grepTexts))
	}
	at := len(e.texts)
	e.texts = append(e.texts, text...)
	return e.texts[at:len(e.texts):len(e.texts)]
}
