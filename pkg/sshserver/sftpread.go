package sshserver

import (
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/fsops"
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
	room    *room         // counts what is kept and fetched
	idle    time.Duration // how long that stays without a read

	mu      sync.Mutex
	closed  bool
	reads   int         // under way
	unused  *time.Timer // runs while there are none; nil before the first
	fetches int         // calls under way
	blocks  []*block    // what is kept, the newest last
	stretch *stretch    // what fetches the next blocks; nil at first, and after a pause
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
	if perFile := f.conn.server.PerFile; perFile != nil {
		ctx = perFile(ctx)
	}
	return &reader{
		client: f.client, name: r.Filepath, size: file.Attr().Size, ctx: ctx, cancel: cancel, release: f.release,
		room: &f.conn.ahead, idle: cmp.Or(f.conn.server.idle, idleTime),
	}, nil
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, sftp.ErrSSHFxBadMessage
	}
	defer r.use()()
	n := 0
	for n < len(p) {
		at := offset + int64(n)
		b, err := r.block(at - at%readAhead)
		if err != nil {
			return n, err
		}
		if b == nil { // there is no room to keep more than what was asked for
			more, err := r.fetchInto(p[n:], at)
			return n + more, err
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

// fetchInto fetches what a client has asked for, and nothing else.
func (r *reader) fetchInto(p []byte, offset int64) (int, error) {
	to := &into{p: p}
	_, err := r.client.Read(r.ctx, r.name, to, fsops.ReadOptions{Offset: offset, Length: int64(len(p))})
	if err == nil && to.n < len(p) {
		err = io.EOF
	}
	return to.n, err
}

// into is filled from its beginning.
type into struct {
	p []byte
	n int
}

// Write implements io.Writer.
func (i *into) Write(p []byte) (int, error) {
	n := copy(i.p[i.n:], p)
	i.n += n
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.cancel()
		r.release()
		r.forget()
		if r.unused != nil {
			r.unused.Stop()
		}
	}
	r.closed = true
	return nil
}
