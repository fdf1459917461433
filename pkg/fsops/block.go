package fsops

import (
	"context"
	"errors"
	"io"
	"sync"
)

// blockPool reuses the buffers that file contents pass through. The zero
// value is ready.
type blockPool struct{ pool sync.Pool }

func (p *blockPool) get() *[blockSize]byte {
	if b, ok := p.pool.Get().(*[blockSize]byte); ok {
		return b
	}
	return new([blockSize]byte)
}

func (p *blockPool) put(b *[blockSize]byte) { p.pool.Put(b) }

// each reads r to its end and hands what it reads to use, block by block. A
// block is valid until use returns. It stops when ctx ends.
func (p *blockPool) each(ctx context.Context, r io.Reader, use func([]byte) error) error {
	buf := p.get()
	defer p.put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf[:])
		if n > 0 {
			if err := use(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
