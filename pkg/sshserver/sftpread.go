package sshserver

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
)

// reader is a file that is open for reading. Clients ask for small pieces of it, and for several at
// once, so it fetches larger ones and keeps the last few. What it keeps may be older than the file,
// by as long as the handle is open.
type reader struct {
	client  *podapi.Client
	name    string
	ctx     context.Context
	cancel  context.CancelFunc
	release func()

	mu     sync.Mutex
	closed bool
	blocks []*block // the newest last
}

// block is a piece of a file that begins at a multiple of its size.
type block struct {
	offset int64
	data   []byte
	err    error
	ready  chan struct{} // closed when data and err are set
}

// Fileread implements sftp.FileReader.
func (f *files) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	if _, err := f.client.Open(r.Context(), r.Filepath); err != nil { // nothing is open in the sandbox
		return nil, err
	}
	if err := f.hold(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	if deed := f.conn.server.Deed; deed != nil {
		ctx = deed(ctx)
	}
	return &reader{client: f.client, name: r.Filepath, ctx: ctx, cancel: cancel, release: f.release}, nil
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, sftp.ErrSSHFxBadMessage
	}
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		b := r.block(at - at%readAhead)
		select {
		case <-b.ready:
		case <-r.ctx.Done():
			return n, r.ctx.Err()
		}
		if within := at - b.offset; within < int64(len(b.data)) {
			n += copy(p[n:], b.data[within:])
		}
		switch {
		case b.err != nil:
			return n, b.err
		case len(b.data) < readAhead && n < len(p): // the end, unless the file grows
			r.drop(b)
			return n, io.EOF
		}
	}
	return n, nil
}

// block returns the block at offset, which it begins to fetch if it does not have it, with the one
// that follows.
func (r *reader) block(offset int64) *block {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.fetch(offset)
	if len(r.blocks) > 1 { // not for one small file
		r.fetch(offset + readAhead)
	}
	return found
}

// fetch is called with mu.
func (r *reader) fetch(offset int64) *block {
	for _, b := range r.blocks {
		if b.offset == offset {
			return b
		}
	}
	b := &block{offset: offset, ready: make(chan struct{})}
	r.blocks = append(r.blocks, b)
	if len(r.blocks) > keptBlocks {
		r.blocks = r.blocks[1:]
	}
	go func() {
		defer close(b.ready)
		var data bytes.Buffer
		_, b.err = r.client.Read(r.ctx, r.name, &data, fsops.ReadOptions{Offset: offset, Length: readAhead})
		b.data = data.Bytes()
	}()
	return b
}

// drop forgets a block.
func (r *reader) drop(old *block) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.blocks {
		if b == old {
			r.blocks = append(r.blocks[:i:i], r.blocks[i+1:]...)
			return
		}
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.cancel()
		r.release()
	}
	r.closed = true
	return nil
}
