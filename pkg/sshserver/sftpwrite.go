package sshserver

import (
	"errors"
	"io"
	"io/fs"
	"sync"

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
	perm  fs.FileMode

	mu      sync.Mutex
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
	if err := f.hold(); err != nil {
		return nil, err
	}
	w := &writing{files: f, name: r.Filepath, perm: permOfOpen(r)}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := f.writing.add(w); err != nil {
		f.release()
		return nil, err
	}
	var err error
	if w.pending, err = f.openPending(r, w.perm); err != nil {
		f.writing.remove(w)
		f.release()
		w.failed, w.closed = true, true
		return nil, err
	}
	return w, nil
}

// openPending begins to write a file: a new content, or changes in the present one.
func (f *files) openPending(r *sftp.Request, perm fs.FileMode) (pending, error) {
	flags := r.Pflags()
	attr, err := f.client.Stat(r.Context(), r.Filepath)
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist), err != nil && !flags.Creat:
		return nil, err
	case exists && flags.Creat && flags.Excl:
		return nil, &fs.PathError{Op: "open", Path: r.Filepath, Err: fs.ErrExist}
	}
	opts := fsops.WriteOptions{Perm: perm, Exclusive: flags.Creat && flags.Excl}
	if !flags.Read && (!exists || flags.Trunc) {
		return newStream(f.ctx, f.client, r.Filepath, opts)
	}
	if !flags.Read && !flags.Append {
		return f.newOverwrite(r.Filepath, attr, opts)
	}
	var begin *fsops.Attr
	if exists && !flags.Trunc {
		begin = &attr
	}
	s, err := f.newSpool(r.Filepath, begin, opts)
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

// attrOfPending describes a file that the client writes.
func (f *files) attrOfPending(name string) (fsops.Attr, bool) {
	w := f.writing.of(name)
	if w == nil {
		return fsops.Attr{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fsops.Attr{}, false
	}
	attr := attrOf(name, w.length(), w.perm)
	if w.changes.mode != nil {
		attr.Mode = *w.changes.mode
	}
	return attr, true
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
	if err != nil {
		w.TransferError(err)
	}
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
