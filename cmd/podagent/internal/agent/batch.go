package agent

import (
	"cmp"
	"sync"
	"time"
)

// batcher joins small results into messages. The first result is sent at once,
// since somebody waits for it, and each later one waits for others for delay at
// most. Calls of send do not overlap.
type batcher[T any] struct {
	send  func([]T) error
	delay time.Duration // 0 means batchDelay

	mu    sync.Mutex
	items []T
	bytes int
	begun bool // something was sent
	timer *time.Timer
	err   error
}

// add adds a result of about so many bytes. Its error is that of an earlier send, if one
// failed.
func (b *batcher[T]) add(item T, bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = append(b.items, item)
	b.bytes += bytes
	switch {
	case !b.begun, len(b.items) >= batchItems, b.bytes >= batchBytes:
		b.flushLocked()
	case b.timer == nil:
		b.timer = time.AfterFunc(b.wait(), func() { _ = b.between(func() error { return nil }) })
	case len(b.items) == 1:
		b.timer.Reset(b.wait())
	}
	return b.err
}

func (b *batcher[T]) wait() time.Duration { return cmp.Or(b.delay, batchDelay) }

// between sends what waits, and then something else in the order of results.
func (b *batcher[T]) between(send func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushLocked()
	if b.err == nil {
		b.err = send()
	}
	return b.err
}

// stop ends the batcher: nothing is sent after it.
func (b *batcher[T]) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = nil
	if b.timer != nil {
		b.timer.Stop()
	}
}

func (b *batcher[T]) flushLocked() {
	if b.timer != nil {
		b.timer.Stop()
	}
	if len(b.items) > 0 && b.err == nil {
		b.err = b.send(b.items)
		b.begun = true
	}
	b.items, b.bytes = b.items[:0], 0
}
