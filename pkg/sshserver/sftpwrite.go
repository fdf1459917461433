package sshserver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/sftp"

	"github.com/podagent/podagent/pkg/fsops"
)

// A pending file is one that a client writes. It gets into its place, whole, when the client closes
// it: podapi's writes are atomic.
type pending interface {
	io.WriterAt
	length() int64
	// truncate sets the length, if that can be.
	truncate(size int64) error
	// commit puts the file in its place.
	commit() error
	// drop gives it up, unless it was committed.
	drop()
}

// pendings are the files that an sftp client writes, by their names.
type pendings struct {
	mu    sync.Mutex
	files map[string]*writing
}

// writing is a pending file with what the client wants of it.
type writing struct {
	pending
	files *files
	name  string
	old   *fsops.Attr // nil for a new file

	mu      sync.Mutex
	attr    fsops.Attr // of old, or what a new file gets, if the sandbox's umask is the usual one
	changes changes
	failed  bool // the client is gone, or a write failed: nothing gets into its place
	closed  bool
}

var errWriting = errors.New("this session writes it already")

// Filewrite implements sftp.FileWriter.
func (f *files) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	w, err := f.write(r)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// OpenFile implements sftp.OpenFileWriter.
func (f *files) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) {
	w, err := f.write(r)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// write opens a file for writing.
func (f *files) write(r *sftp.Request) (*writing, error) {
	if err := f.hold(r.Filepath); err != nil {
		return nil, err
	}
	w := &writing{files: f, name: r.Filepath}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := f.writing.add(w); err != nil {
		f.release()
		return nil, err
	}
	if err := w.open(r); err != nil {
		f.writing.remove(w)
		f.release()
		w.failed, w.closed = true, true
		return nil, err
	}
	return w, nil
}

// open begins to write the file.
func (w *writing) open(r *sftp.Request) error {
	flags, perm := r.Pflags(), permOfOpen(r)
	attr, err := w.files.client.Stat(r.Context(), w.name)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist), err != nil && !flags.Creat:
		return err
	case err == nil && flags.Creat && flags.Excl:
		return &fs.PathError{Op: "open", Path: w.name, Err: fs.ErrExist}
	case err == nil:
		w.old, w.attr = &attr, attr
	default:
		// The write itself would say so with its first bytes, or when the file is closed.
		if err := w.files.mustBeDir(r.Context(), path.Dir(w.name)); err != nil {
			return err
		}
		w.attr = fsops.Attr{Path: w.name, Mode: cmp.Or(perm, 0o666) &^ usualUmask}
	}
	if w.old == nil || flags.Trunc {
		w.attr.ModTime = time.Now()
	}
	w.pending, err = w.files.openPending(w.name, flags, w.old, fsops.WriteOptions{Perm: perm, Exclusive: flags.Creat && flags.Excl})
	return err
}

// mustBeDir returns an error unless a directory has this name.
func (f *files) mustBeDir(ctx context.Context, name string) error {
	attr, err := f.client.Stat(ctx, name)
	if err == nil && !attr.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return err
}

// usualUmask is what most images have.
const usualUmask = 0o022

// openPending begins a new content of a file, or changes in the present one, which is old.
func (f *files) openPending(name string, flags sftp.FileOpenFlags, old *fsops.Attr, opts fsops.WriteOptions) (pending, error) {
	if flags.Trunc {
		old = nil
	}
	switch {
	case !flags.Read && old == nil:
		return f.newStream(name, opts)
	case !flags.Read && !flags.Append:
		return f.newOverwrite(name, *old, opts)
	}
	s, err := f.newSpool(name, old, opts)
	if err != nil {
		return nil, err
	}
	s.append = flags.Append
	return s, nil
}

func (p *pendings) add(w *writing) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files[w.name] != nil {
		return &fs.PathError{Op: "open", Path: w.name, Err: errWriting}
	}
	if p.files == nil {
		p.files = map[string]*writing{}
	}
	p.files[w.name] = w
	return nil
}

func (p *pendings) remove(w *writing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files[w.name] == w {
		delete(p.files, w.name)
	}
}

// of returns the file of this name that is open, or nil.
func (p *pendings) of(name string) *writing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.files[name]
}

// describePending describes a file that the client writes; nil if it writes none of this name. Nobody knows yet
// who will own a new one.
func (f *files) describePending(name string) fs.FileInfo {
	w := f.writing.of(name)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	attr := w.changes.in(w.attr)
	attr.Size = w.length()
	if w.old == nil && w.changes.owner == nil {
		return attr.FileInfo()
	}
	return info{attr.FileInfo(), attr}
}

// changePending notes what the attributes of a file are to be that the client writes. It reports
// whether it writes it.
func (f *files) changePending(name string, c changes) (bool, error) {
	w := f.writing.of(name)
	if w == nil {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, nil
	}
	w.changes = w.changes.and(c)
	if c.size == nil {
		return true, nil
	}
	return true, w.truncate(*c.size)
}

// WriteAt implements io.WriterAt.
func (w *writing) WriteAt(p []byte, offset int64) (int, error) {
	n, err := w.pending.WriteAt(p, offset)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 {
		w.attr.ModTime = time.Now()
	}
	w.failed = w.failed || err != nil
	return n, err
}

// ReadAt implements io.ReaderAt, for a file that was opened so.
func (w *writing) ReadAt(p []byte, offset int64) (int, error) {
	if s, ok := w.pending.(io.ReaderAt); ok {
		return s.ReadAt(p, offset)
	}
	return 0, sftp.ErrSSHFxOpUnsupported
}

// TransferError implements sftp.TransferError: what was written does not get into its place.
func (w *writing) TransferError(error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = true
}

// Close puts the file in its place, and then sets its attributes.
func (w *writing) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fs.ErrClosed
	}
	w.closed = true
	defer w.files.release()
	defer w.files.writing.remove(w)
	defer w.drop()
	if w.failed {
		return &fs.PathError{Op: "write", Path: w.name, Err: errors.New("a write failed before: the file is as it was")}
	}
	if err := w.commit(); err != nil {
		return err
	}
	return w.files.apply(w.files.ctx, w.name, w.changes)
}
