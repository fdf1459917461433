package fsops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Edit replaces a text by another.
type Edit struct {
	// Old is found exactly, byte for byte. It must not be empty, and must
	// differ from New.
	Old, New []byte
	// All replaces every occurrence. Without it there must be exactly one.
	All bool
}

// EditOptions says under which conditions [FS.Edit] edits.
type EditOptions struct {
	// IfMatch is as in [WriteOptions].
	IfMatch string
}

// EditResult says what [FS.Edit] did.
type EditResult struct {
	// Occurrences is how often each edit replaced its text, in their order.
	Occurrences []int
	// Diff is the whole change as a unified diff with three lines of context,
	// empty if the edits undid each other.
	Diff []byte
	// DiffTruncated says that Diff is only the beginning of the change, since the
	// whole would be over 1 MiB or have too many hunks.
	DiffTruncated bool
	// Write says how the file was written.
	Write WriteResult
}

// Edit applies the edits to the file called name, each to the result of the
// one before, and replaces the file atomically as [FS.Create] does. If one
// does not apply, the error is an [*EditError] and the file is as before.
//
// Edits of one file through this FS wait for each other. If something else changes
// the file meanwhile, the edits are applied again, to the new content, unless
// opts.IfMatch forbids it ([ErrChanged]). A file, or a result, over [MaxEditSize]
// is an error of class EFBIG; no edits at all, an empty old text, or one that
// equals the new text, are EINVAL. Edits of many large files at once wait for each
// other, since they are held in memory.
func (f *FS) Edit(ctx context.Context, name string, edits []Edit, opts EditOptions) (EditResult, error) {
	path, err := f.resolve("edit", name)
	if err != nil {
		return EditResult{}, err
	}
	res, err := f.edit(ctx, path, name, edits, opts)
	return res, pathError("edit", name, err)
}

func (f *FS) edit(ctx context.Context, path, name string, edits []Edit, opts EditOptions) (EditResult, error) {
	if err := checkEdits(edits); err != nil {
		return EditResult{}, err
	}
	var err error
	for range editAttempts {
		var res EditResult
		res, err = f.tryEdit(ctx, path, name, edits, opts)
		changed := errors.Is(err, ErrChanged) && opts.IfMatch == ""
		if !changed {
			return res, err
		}
	}
	return EditResult{}, err
}

func checkEdits(edits []Edit) error {
	if len(edits) == 0 {
		return fmt.Errorf("no edits given: %w", syscall.EINVAL)
	}
	for i, e := range edits {
		switch {
		case len(e.Old) == 0:
			return fmt.Errorf("edit %d: old text is empty: %w", i+1, syscall.EINVAL)
		case bytes.Equal(e.Old, e.New):
			return fmt.Errorf("edit %d: old and new text are the same: %w", i+1, syscall.EINVAL)
		}
	}
	return nil
}

// tryEdit edits the file once, and fails with ErrChanged if it changed meanwhile.
func (f *FS) tryEdit(ctx context.Context, path, name string, edits []Edit, opts EditOptions) (EditResult, error) {
	dest, err := f.followTo(path, false)
	if err == nil {
		err = f.mayChange(dest)
	}
	if err != nil {
		return EditResult{}, err
	}
	unlock, err := f.locks.lock(ctx, dest)
	if err != nil {
		return EditResult{}, err
	}
	defer unlock()
	done, err := f.admitEdit(ctx, dest, edits)
	if err != nil {
		return EditResult{}, err
	}
	defer done()
	before, tag, err := f.readWhole(dest)
	if err != nil {
		return EditResult{}, err
	}
	if opts.IfMatch != "" && opts.IfMatch != tag {
		return EditResult{}, ErrChanged
	}
	after, err := applyEdits(ctx, before, edits)
	if err != nil {
		return EditResult{}, err
	}
	res := EditResult{Occurrences: after.counts}
	if res.Write, err = f.rewrite(ctx, dest, name, after.content, tag); err != nil {
		return EditResult{}, err
	}
	res.Diff, res.DiffTruncated = unifiedDiff(name, before, after.pieces)
	return res, nil
}

// admitEdit waits until there is memory for the edits of the file at path. The
// caller calls done when it no longer holds the content.
func (f *FS) admitEdit(ctx context.Context, path string, edits []Edit) (done func(), err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return f.edits.take(ctx, editedSize(info.Size(), edits))
}

// editedSize returns the largest size that a content of this size may get.
func editedSize(size int64, edits []Edit) int64 {
	for _, e := range edits {
		grows := int64(len(e.New) - len(e.Old))
		if grows > 0 && e.All {
			grows *= size / int64(len(e.Old))
		}
		if size += max(0, grows); size > MaxEditSize {
			return MaxEditSize // a larger content is refused
		}
	}
	return size
}

// readWhole returns the content of the file and its etag.
func (f *FS) readWhole(path string) ([]byte, string, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	if info.Size() > MaxEditSize {
		return nil, "", syscall.EFBIG
	}
	var content bytes.Buffer
	content.Grow(int(info.Size()) + bytes.MinRead)
	// One byte more shows that the file grew beyond the limit.
	n, err := content.ReadFrom(io.LimitReader(file, MaxEditSize+1))
	if err == nil && n > MaxEditSize {
		err = syscall.EFBIG
	}
	if err != nil {
		return nil, "", err
	}
	return content.Bytes(), etag(info), unchanged(file, etag(info))
}

// unchanged returns ErrChanged if the open file no longer has the etag.
func unchanged(file regularFile, tag string) error {
	info, err := file.Stat()
	if err == nil && etag(info) != tag {
		err = ErrChanged
	}
	return err
}

// rewrite gives the file at dest the content. The file must still have the etag,
// and the caller holds its lock.
func (f *FS) rewrite(ctx context.Context, dest, name string, content []byte, tag string) (WriteResult, error) {
	w := &Writer{fsys: f, op: "edit", name: name, opts: WriteOptions{IfMatch: tag}}
	defer w.Close()
	if err := w.open(dest); err != nil {
		return WriteResult{}, err
	}
	if w.dest != dest {
		return WriteResult{}, ErrChanged // it became a symbolic link
	}
	if _, err := w.Write(content); err != nil {
		return WriteResult{}, err
	}
	return w.commit(ctx)
}
