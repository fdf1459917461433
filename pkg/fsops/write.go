package fsops

import (
	"context"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// WriteOptions says how [FS.Create] creates or replaces a file.
type WriteOptions struct {
	// Perm is the mode of a file that is made; an existing one keeps its
	// mode. 0 means 0o666. The umask applies.
	Perm fs.FileMode
	// Exclusive demands that the file does not exist (fs.ErrExist if it does).
	Exclusive bool
	// IfMatch, if not empty, demands that the file has this etag
	// ([ErrChanged] if it has another, fs.ErrNotExist if there is none).
	IfMatch string
	// Parents makes the missing parent directories, with mode 0o777 less the
	// umask.
	Parents bool
	// Sync makes the write wait until the content and its directory entry are on the
	// disk (fsync).
	Sync bool
}

// WriteResult says what a write did.
type WriteResult struct {
	// Attr describes the file as it is now.
	Attr Attr
	// Created says that there was no such file.
	Created bool
	// InPlace says that the file could not be replaced atomically (a mount point, an
	// owner that can't be kept, a directory that can't be written) and was
	// overwritten instead.
	InPlace bool
}

// A Writer receives the new content of a file. The file stays as it is until
// [Writer.Commit] succeeds. A Writer that is closed before leaves no trace; where
// the platform has unnamed files, nor does one whose process dies. It is not for
// concurrent use.
type Writer struct {
	fsys *FS
	// op and name are what errors report.
	op, name string
	opts     WriteOptions
	// dest is the destination: the file that name led to when the Writer was made. The
	// Writer reaches it through at.
	dest string
	at   guardedPath
	// former describes the destination at that time; nil if it did not exist.
	former fs.FileInfo
	// stamp, if not nil, is the mode and time that the file gets.
	stamp *stamp
	spool *spool
	sum   Sum
	// atomic says that the file must not be overwritten in place.
	atomic bool
	// room is what the content leaves on the disk.
	room room
	// flushed is how much of the content is on its way to the disk.
	flushed int64
	// failed is the first error of Write, after which nothing is committed.
	failed error
}

// stamp is the mode and time of a copied file.
type stamp struct {
	mode    fs.FileMode
	modTime time.Time
}

// Create begins to write the file called name, which need not exist; symbolic links
// are followed to the file that they name. Create checks what opts demands, and
// that the file may be written at all, to spare the caller the transfer;
// [Writer.Commit] checks both again.
//
// A directory is an error of class EISDIR, a device, FIFO or socket
// [ErrNotRegular], and a file that this process could not open for writing EACCES.
// The caller must Close the Writer.
func (f *FS) Create(name string, opts WriteOptions) (*Writer, error) {
	return f.create("write", name, opts)
}

func (f *FS) create(op, name string, opts WriteOptions) (*Writer, error) {
	path, err := f.resolve(op, name)
	if err != nil {
		return nil, err
	}
	w := &Writer{fsys: f, op: op, name: name, opts: opts}
	if err := w.open(path); err != nil {
		w.Close()
		return nil, pathError(op, name, err)
	}
	return w, nil
}

func (w *Writer) open(path string) error {
	var err error
	// A file that must have an etag exists, and so does its directory.
	if w.dest, err = w.fsys.followTo(path, w.opts.Parents && w.opts.IfMatch == ""); err != nil {
		return err
	}
	if w.at, err = w.fsys.guard(w.dest); err != nil {
		return err
	}
	if err := w.at.check(0); err != nil {
		return err
	}
	if w.former, err = stateOf(w.at.path); err != nil {
		return err
	}
	if err := w.opts.checkPreconditions(w.at.path, w.former); err != nil {
		return err
	}
	perm := w.opts.perm()
	if w.former != nil {
		// A spool that has a name must not show what the destination hides. It
		// gets the destination's mode at the end.
		perm = 0o600
	}
	w.spool, err = openSpool(filepath.Dir(w.at.path), perm, w.former != nil)
	return err
}

func (o WriteOptions) perm() fs.FileMode {
	if o.Perm == 0 {
		return 0o666
	}
	return o.Perm
}

// checkPreconditions returns nil if the file at path may be made or replaced; info
// describes it.
func (o WriteOptions) checkPreconditions(path string, info fs.FileInfo) error {
	if info == nil {
		if o.IfMatch != "" {
			return syscall.ENOENT
		}
		return nil
	}
	if o.Exclusive {
		return syscall.EEXIST
	}
	if err := mustBeRegular(info); err != nil {
		return err
	}
	if o.IfMatch != "" && o.IfMatch != etag(info) {
		return ErrChanged
	}
	return mayWrite(path)
}

// LeaveRoom makes Write fail with ENOSPC while there is still some room on the disk: a
// tenth of what is free now, or 1 GiB if that is less. It does nothing if the file system
// does not tell what is free. It is for a content whose source is not trusted.
func (w *Writer) LeaveRoom() { w.room = newRoom(w.spool.dir) }

// Write adds p to the content. An error, such as ENOSPC, is final.
func (w *Writer) Write(p []byte) (int, error) {
	if w.spool == nil {
		return 0, pathError(w.op, w.name, fs.ErrClosed)
	}
	if w.failed != nil {
		return 0, w.failed
	}
	n, err := w.spool.file.Write(p)
	w.sum.Add(p[:n])
	if err == nil {
		err = w.room.use(n)
	}
	w.failed = pathError(w.op, w.name, err)
	w.flush()
	return n, w.failed
}

// flush starts to send what was written to the disk, if the end of the write would
// have to wait for that: because of fsync, or because file systems such as ext4
// write a new content out before it replaces another (auto_da_alloc).
func (w *Writer) flush() {
	behind := w.sum.Size - w.flushed
	if behind >= flushStep && (w.former != nil || w.opts.Sync) {
		startWriteback(w.spool.file, w.flushed, behind)
		w.flushed = w.sum.Size
	}
}

// Commit makes what was written the content of the file, if it has the size
// and checksum of sum; if not, the error is [ErrChecksum]. Unless the result
// says InPlace, a reader sees the former content or the new one, never a part.
//
// After an error the file is as before, with one exception: an error of the device
// in the middle of a write in place. The end of ctx counts until the file is about
// to change. Commit closes the Writer.
func (w *Writer) Commit(ctx context.Context, sum Sum) (WriteResult, error) {
	defer w.Close()
	if err := w.complete(sum); err != nil {
		return WriteResult{}, err
	}
	unlock, err := w.fsys.locks.lock(ctx, w.dest)
	if err != nil {
		return WriteResult{}, pathError(w.op, w.name, err)
	}
	defer unlock()
	return w.commit(ctx)
}

// CommitAtomic is [Writer.Commit] without writing in place: even if this process is
// killed, the file has its former content or the new one. If the file cannot be
// replaced, it fails with the reason, such as fs.ErrPermission, and the file is as
// before.
func (w *Writer) CommitAtomic(ctx context.Context, sum Sum) (WriteResult, error) {
	w.atomic = true
	return w.Commit(ctx, sum)
}

// complete returns nil if the content is the one that sum announced.
func (w *Writer) complete(sum Sum) error {
	switch {
	case w.spool == nil:
		return pathError(w.op, w.name, fs.ErrClosed)
	case w.failed != nil:
		return w.failed
	case sum != w.sum:
		return pathError(w.op, w.name, ErrChecksum)
	}
	return nil
}

// commit publishes the content. The caller holds the destination's lock.
func (w *Writer) commit(ctx context.Context) (WriteResult, error) {
	err := ctx.Err()
	if err == nil && w.at.open == nil { // something may be protected by now
		w.at, err = w.fsys.guard(w.dest)
	}
	var res WriteResult
	if err == nil {
		res, err = w.publish()
	}
	return res, pathError(w.op, w.name, err)
}

// Close discards what was written and not committed. It may be called more
// than once, and after Commit.
func (w *Writer) Close() error {
	if w.spool != nil {
		w.spool.discard()
		w.spool = nil
	}
	w.at.close()
	return nil
}
