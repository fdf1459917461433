package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// overwrite copies the spool, which is complete and checked by now, over the
// destination, which info describes; it makes the destination if there is none. No
// context ends it, since half a copy would do harm. reason is why the destination
// cannot be replaced; it is the error if the write must be atomic.
func (w *Writer) overwrite(info fs.FileInfo, reason error) (WriteResult, error) {
	if w.atomic {
		return WriteResult{}, fmt.Errorf("it cannot be replaced atomically, but only overwritten: %w", cause(reason))
	}
	flags, perm := os.O_WRONLY|openNonblock|openNoFollow, fs.FileMode(0)
	if info == nil {
		flags, perm = flags|os.O_CREATE|os.O_EXCL, w.opts.perm()
	}
	var file *os.File
	err := w.at.change(0, func() (err error) {
		file, err = os.OpenFile(w.at.path, flags, perm)
		return err
	})
	if err != nil {
		return WriteResult{}, err
	}
	attr, err := w.fill(file)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		if info == nil {
			_ = os.Remove(w.at.path)
		}
		return WriteResult{}, err
	}
	return WriteResult{Attr: attr, Created: info == nil, InPlace: true}, nil
}

// fill replaces the content of the open destination.
func (w *Writer) fill(file *os.File) (Attr, error) {
	info, err := file.Stat()
	if err != nil {
		return Attr{}, err
	}
	if err := mustBeRegular(info); err != nil {
		return Attr{}, err
	}
	if err := opener.MayChange(file); err != nil { // a mount of a single file
		return Attr{}, err
	}
	if err := reserve(file.Fd(), w.sum.Size); err != nil {
		_ = file.Truncate(info.Size()) // gives back what was reserved beyond
		return Attr{}, err
	}
	if err := w.copySpool(file); err != nil {
		return Attr{}, err
	}
	if err := w.restamp(file); err != nil {
		return Attr{}, err
	}
	if w.opts.Sync {
		if err := file.Sync(); err != nil {
			return Attr{}, err
		}
	}
	if info, err = file.Stat(); err != nil {
		return Attr{}, err
	}
	return attrOf(w.name, info), nil
}

// copySpool replaces the content of the file by the spool's.
func (w *Writer) copySpool(file *os.File) error {
	content, err := w.spool.reader()
	if err != nil {
		return err
	}
	err = w.fsys.blocks.each(context.Background(), content, func(block []byte) error {
		_, err := file.Write(block)
		return err
	})
	if err != nil {
		return err
	}
	return file.Truncate(w.sum.Size)
}

// restamp gives the destination the mode and time of the copied file, unless another
// user owns the destination.
func (w *Writer) restamp(file *os.File) error {
	if w.stamp == nil {
		return nil
	}
	err := file.Chmod(w.stamp.mode)
	if err == nil {
		err = os.Chtimes(descriptorPath(file), time.Time{}, w.stamp.modTime)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
