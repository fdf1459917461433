package sshserver

import (
	"context"
	"io"
	"sync"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/podapi"
)

// reader is a file that is open for reading. Clients ask for small pieces of it, and for several at
// once, so it fetches blocks and keeps the last few. What it keeps may be older than the file,
// by as long as the handle is open.
type reader struct {
	client  *podapi.Client
	name    string
	size    int64 // when it was opened
	ctx     context.Context
	cancel  context.CancelFunc
	release func()

	mu      sync.Mutex
	closed  bool
	fetches int      // calls under way
	blocks  []*block // what is kept, the newest last
	stretch *stretch // what fetches the next blocks; nil at first
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
	file, err := f.client.Open(r.Context(), r.Filepath) // nothing is open in the sandbox
	if err != nil {
		return nil, err
	}
	if err := f.hold(r.Filepath); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	if deed := f.conn.server.Deed; deed != nil {
		ctx = deed(ctx)
	}
	return &reader{client: f.client, name: r.Filepath, size: file.Attr().Size, ctx: ctx, cancel: cancel, release: f.release}, nil
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, sftp.ErrSSHFxBadMessage
	}
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		b, err := r.block(at - at%readAhead)
		if err != nil {
			return n, err
		}
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
		r.begin(nil)
	}
	r.closed = true
	return nil
}
