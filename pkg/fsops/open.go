package fsops

import (
	"context"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// openRegular opens the regular file at path for reading, without ever
// waiting for a FIFO or device. It looks before it opens, since opening a
// device may already have an effect, and again at what it opened.
func openRegular(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if err := mustBeRegular(info); err != nil {
		return nil, nil, err
	}
	file, err := os.OpenFile(path, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = mustBeRegular(info)
	}
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

func mustBeRegular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return syscall.EISDIR
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}

// abandonReads makes reads of file fail once ctx ends. Only the few files under
// /proc that are streams, such as kmsg, know a deadline; reads of others do not
// wait. The caller calls stop when it has read enough.
func abandonReads(ctx context.Context, file *os.File) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })
}
