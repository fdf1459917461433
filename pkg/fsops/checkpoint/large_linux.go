package checkpoint

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// path is that of a large object.
func (o *objects) path(h Hash) string { return filepath.Join(o.dir, h.String()) }

func (o *objects) hasLarge(h Hash) bool {
	if o.suspect {
		return o.check(h) == nil
	}
	var st unix.Stat_t
	return unix.Lstat(o.path(h), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// publish gives a whole file the name of an object.
func (o *objects) publish(tmp string, h Hash) error {
	path := o.path(h)
	err := os.Rename(tmp, path)
	if errors.Is(err, fs.ErrExist) { // a directory that somebody has put there
		err = errors.Join(os.RemoveAll(path), os.Rename(tmp, path))
	}
	if err != nil {
		err = errors.Join(err, removeAny(tmp))
	}
	return err
}

// open opens a large object for reading.
func (o *objects) open(h Hash) (file *os.File, size int64, err error) {
	file, size, err = openRegular(o.path(h))
	if err != nil {
		err = missing(h, err)
	}
	return file, size, err
}

// writeTo writes an object of any size to w. If the object is damaged, that shows at the end only, and what
// was written is worth nothing.
func (o *objects) writeTo(w io.Writer, h Hash) error {
	c := o.coder()
	defer o.coders.Put(c)
	if _, ok, err := o.packs.find(h); ok || err != nil {
		content, err := o.read(c, h, wholeSize)
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	file, size, err := o.open(h)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	n, err := io.CopyBuffer(onlyWriter{io.MultiWriter(sum, w)}, onlyReader{io.LimitReader(file, size)}, c.buffer())
	if err == nil && (n != size || Hash(sum.Sum(nil)) != h) {
		err = damaged(h)
	}
	return err
}

// fill writes an object to an empty file. It clones the object where the file system can do that.
func (o *objects) fill(to *os.File, h Hash) error {
	if _, ok, err := o.packs.find(h); ok || err != nil {
		return o.writeTo(to, h)
	}
	file, size, err := o.open(h)
	if err != nil {
		return err
	}
	defer file.Close()
	if unix.IoctlFileClone(int(to.Fd()), int(file.Fd())) != nil {
		return o.writeTo(to, h)
	}
	c := o.coder()
	defer o.coders.Put(c)
	sum := sha256.New()
	if _, err := io.CopyBuffer(onlyWriter{sum}, onlyReader{io.NewSectionReader(to, 0, size)}, c.buffer()); err != nil {
		return err
	}
	if Hash(sum.Sum(nil)) != h {
		return damaged(h)
	}
	return nil
}
