package fsops

import (
	"context"
	"io"
	"syscall"
)

// ReadOptions selects the bytes that [FS.Read] reads.
type ReadOptions struct {
	// Offset is the first byte, from 0. Beyond the end nothing is read.
	Offset int64
	// Length is how many bytes are read at most; 0 means to the end.
	Length int64
	// Opened, if not nil, is called with the file's attributes before the
	// first byte is written; its error ends the read.
	Opened func(Attr) error
}

// ReadResult says what [FS.Read] read.
type ReadResult struct {
	// Attr describes the file when it was opened.
	Attr Attr
	// Sum covers the bytes that were read.
	Sum Sum
}

// Read writes the bytes of the file that opts selects to w, in blocks, and
// returns how many there were and their checksum. A file without a known
// size, such as those in /proc, is read to its end.
//
// It reads regular files only, and never waits for another process: a directory is
// an error of class EISDIR, a FIFO, socket or device [ErrNotRegular]. So is a file that
// only looks regular, such as /proc/kmsg, where reading on would wait; what it has comes
// before the error. A negative offset or length is EINVAL. An error of w comes back as
// it is.
func (f *FS) Read(ctx context.Context, name string, w io.Writer, opts ReadOptions) (ReadResult, error) {
	path, err := f.resolve("read", name)
	if err != nil {
		return ReadResult{}, err
	}
	if opts.Offset < 0 || opts.Length < 0 {
		return ReadResult{}, pathError("read", name, syscall.EINVAL)
	}
	file, info, err := openRegular(path)
	if err != nil {
		return ReadResult{}, pathError("read", name, err)
	}
	defer file.Close()
	res := ReadResult{Attr: attrOf(name, info)}
	if opts.Opened != nil {
		if err := opts.Opened(res.Attr); err != nil {
			return res, err
		}
	}
	err = f.copyRange(ctx, file, opts, w, &res.Sum)
	return res, readError(name, err)
}

// copyRange copies the bytes of file that opts selects to w and adds them up
// in sum. Errors of w come as a writerError.
func (f *FS) copyRange(ctx context.Context, file regularFile, opts ReadOptions, w io.Writer, sum *Sum) error {
	if opts.Offset > 0 {
		if _, err := file.Seek(opts.Offset, io.SeekStart); err != nil {
			return err
		}
	}
	var r io.Reader = file
	if opts.Length > 0 {
		r = io.LimitReader(file, opts.Length)
	}
	return f.blocks.each(ctx, r, func(block []byte) error {
		if _, err := w.Write(block); err != nil {
			return writerError{err}
		}
		sum.Add(block)
		return nil
	})
}

// writerError is an error of the caller's writer, and not of the file.
type writerError struct{ error }

// readError reports err for the file that the caller named; a writerError comes
// back as it was.
func readError(name string, err error) error {
	if w, ok := err.(writerError); ok {
		return w.error
	}
	return pathError("read", name, err)
}
