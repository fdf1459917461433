package fsops

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"
)

// regular writes a file. Once it is complete, it replaces another file of its name.
func (x *extractor) regular(name string, h *tar.Header, content io.Reader) error {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") { // a few bytes would fill the disk
			return fmt.Errorf("%w: sparse entries are not supported", ErrBadArchive)
		}
	}
	_, base, err := x.enter(name)
	if err == nil {
		err = x.check(base, 0)
	}
	if err != nil {
		return err
	}
	file, err := x.openUnnamed()
	if err != nil {
		// A fault of the directory itself fails the named file, too, which reports it
		// (see newSpool).
		return x.named(base, h, content)
	}
	err = x.unnamed(file, base, h, content)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// openUnnamed opens a file without a name in the directory that was entered. If
// this process is killed before it is complete, nothing of it is left.
func (x *extractor) openUnnamed() (*os.File, error) {
	if err := x.holdParent(); err != nil {
		return nil, err
	}
	return openUnnamedIn(x.parent, 0o600)
}

// unnamed fills the file and gives it its name.
func (x *extractor) unnamed(file *os.File, base string, h *tar.Header, content io.Reader) error {
	if err := x.fill(file, h, content); err != nil {
		return err
	}
	if err := os.Chtimes(descriptorPath(file), time.Time{}, h.ModTime); err != nil {
		return err
	}
	return x.change(base, 0, func() error {
		return putIn(x.parent, base, func(name string) error { return linkUnnamedIn(file, x.parentFile, name) })
	})
}

// named writes a file under a temporary name, if there are no unnamed files.
func (x *extractor) named(base string, h *tar.Header, content io.Reader) error {
	temp, err := atFreeName("", func(temp string) error {
		file, err := x.parent.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		err = x.fill(file, h, content)
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
		if err == nil {
			err = x.parent.Chtimes(temp, time.Time{}, h.ModTime)
		}
		if err != nil {
			_ = x.parent.Remove(temp)
		}
		return err
	})
	if err != nil {
		return err
	}
	err = x.change(base, 0, func() error { return renameIn(x.parent, temp, base) })
	if err != nil {
		_ = x.parent.Remove(temp)
	}
	return err
}

// fill writes the content and sets the mode of a file.
func (x *extractor) fill(file *os.File, h *tar.Header, content io.Reader) error {
	for {
		n, err := content.Read(x.buf)
		if n > 0 {
			if _, err := file.Write(x.buf[:n]); err != nil {
				return err
			}
			x.stats.Bytes += int64(n)
			if err := x.size.addBytes(n); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return file.Chmod(x.modeOf(h))
		}
		if err != nil {
			return x.readError(err)
		}
	}
}

// putIn calls create for a file called base, and replaces one that exists. If none
// exists, the file never has another name.
func putIn(parent *os.Root, base string, create func(name string) error) error {
	if err := create(base); !errors.Is(err, fs.ErrExist) {
		return err
	}
	temp, err := atFreeName("", create)
	if err != nil {
		return err
	}
	if err = renameIn(parent, temp, base); err != nil {
		_ = parent.Remove(temp)
	}
	return err
}

// renameIn renames a file, and replaces one that exists.
func renameIn(parent *os.Root, name, base string) error {
	err := parent.Rename(name, base)
	if err == nil {
		return nil
	}
	if info, statErr := parent.Lstat(base); statErr == nil && info.IsDir() && errors.Is(err, fs.ErrExist) {
		return syscall.EISDIR
	}
	return err
}
