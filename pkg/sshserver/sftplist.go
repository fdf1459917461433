package sshserver

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"sync"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/fsops"
)

// directory is an open directory. Its entries come as the client asks for them, so that one of any
// size takes little memory.
type directory struct {
	release func()

	mu   sync.Mutex
	next func() (fsops.Attr, error, bool)
	stop func()
	err  error
}

func (f *files) list(name string) (sftp.ListerAt, error) {
	if err := f.hold(name); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(f.ctx)
	d := &directory{}
	next, stop := iter.Pull2(f.client.List(ctx, name, fsops.ListOptions{}))
	d.next, d.stop = next, func() { cancel(); stop() }
	d.release = f.release
	attr, err, ok := next()
	if ok && err != nil && !errors.Is(err, fsops.ErrSkipped) {
		d.Close()
		return nil, err
	}
	d.next = d.startingWith(attr, err, ok)
	return d, nil
}

// startingWith returns the iterator whose first result is known.
func (d *directory) startingWith(attr fsops.Attr, err error, ok bool) func() (fsops.Attr, error, bool) {
	rest, first := d.next, true
	return func() (fsops.Attr, error, bool) {
		if first {
			first = false
			return attr, err, ok
		}
		return rest()
	}
}

// ListAt implements sftp.ListerAt: it continues where it was, which is where sftp asks.
func (d *directory) ListAt(list []fs.FileInfo, _ int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range list {
		if d.err != nil {
			return n, d.err
		}
		attr, err, ok := d.next()
		switch {
		case !ok, errors.Is(err, fsops.ErrSkipped): // what cannot be described is left out, as by others
			d.err = io.EOF
			return n, io.EOF
		case err != nil:
			d.err = err
			return n, err
		}
		list[n] = info{attr.FileInfo(), attr}
	}
	return len(list), nil
}

// Close ends the listing.
func (d *directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != fs.ErrClosed {
		d.stop()
		d.release()
	}
	d.err = fs.ErrClosed
	return nil
}
