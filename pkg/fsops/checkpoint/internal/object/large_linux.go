package object

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// path is that of a large object.
func (o *Store) path(h Hash) string { return filepath.Join(o.dir, h.String()) }

func (o *Store) hasLarge(h Hash) bool {
	if o.Suspect {
		return o.Check(h) == nil
	}
	return o.isThere(h)
}

// Large returns the objects that have files of their own.
func (o *Store) Large() (map[Hash]struct{}, error) {
	list := map[Hash]struct{}{}
	err := o.eachLarge(func(path string) error {
		if h, err := ParseHash(filepath.Base(path)); err == nil {
			list[h] = struct{}{}
		}
		return nil
	})
	return list, err
}

// HasOf is Has for a store whose objects with files of their own are among these: it asks the disk for no other.
func (o *Store) HasOf(h Hash, large map[Hash]struct{}) bool {
	if ok, err := o.hasPacked(h); ok || err != nil {
		return ok
	}
	_, listed := large[h]
	return listed && o.hasLarge(h)
}

// isThere reports whether an object has a file of its own.
func (o *Store) isThere(h Hash) bool {
	var st unix.Stat_t
	return unix.Lstat(o.path(h), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// publish gives a whole file the name of an object.
func (o *Store) publish(tmp string, h Hash) error {
	path := o.path(h)
	err := os.Rename(tmp, path)
	if errors.Is(err, fs.ErrExist) { // a directory that somebody has put there
		err = errors.Join(RemoveTree(path), os.Rename(tmp, path))
	}
	if err != nil {
		err = errors.Join(err, RemoveAny(tmp))
	}
	return err
}

// open opens a large object for reading.
func (o *Store) open(h Hash) (file *os.File, size int64, err error) {
	file, size, err = OpenRegular(o.path(h))
	if err != nil {
		err = missing(h, err)
	}
	return file, size, err
}

// WriteTo writes an object of any size to w. If the object is damaged, that shows at the end only, and what
// was written is worth nothing.
func (o *Store) WriteTo(w io.Writer, h Hash) error {
	c := o.Coder()
	defer o.Release(c)
	if _, ok, err := o.packs.find(h); ok || err != nil {
		content, err := o.Read(c, h, MaxDir)
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
	sum := NewSum()
	n, err := io.CopyBuffer(io.MultiWriter(sum, w), io.LimitReader(file, size), c.Buffer(CopySize))
	if err == nil && (n != size || Hash(sum.Sum(nil)) != h) {
		err = Damaged(h)
	}
	return err
}

// Fill writes an object to an empty file. It clones the object where the file system can do that. What was compared with its
// hash since [Store.Use] is compared again, unless it is believed.
func (o *Store) Fill(to *os.File, h Hash, believed bool) error {
	at, small, err := o.packs.find(h)
	switch {
	case err != nil:
		return err
	case small && at.whole && believed:
		return o.fillPacked(to, h, at)
	case small:
		return o.WriteTo(to, h)
	}
	file, size, err := o.open(h)
	if err != nil {
		return err
	}
	defer file.Close()
	cloned := unix.IoctlFileClone(int(to.Fd()), int(file.Fd())) == nil
	switch {
	case believed && o.packs.isBelieved(h):
		if !cloned {
			_, err = io.CopyN(to, file, size)
		}
		return err
	case !cloned:
		return o.WriteTo(to, h)
	}
	return o.compare(to, size, h)
}

// compare returns an error unless the first size bytes of a file have this hash.
func (o *Store) compare(file *os.File, size int64, h Hash) error {
	c := o.Coder()
	defer o.Release(c)
	sum := NewSum()
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(file, 0, size), c.Buffer(CopySize)); err != nil {
		return err
	}
	if Hash(sum.Sum(nil)) != h {
		return Damaged(h)
	}
	return nil
}

// fillPacked writes an object that is in a pack, and is known to be what its hash says.
func (o *Store) fillPacked(to *os.File, h Hash, at place) error {
	c := o.Coder()
	defer o.Release(c)
	if err := o.readPacked(c, h, at, MaxDir); err != nil {
		return err
	}
	content, err := c.decode(h, c.packed, at.how, MaxDir)
	if err == nil {
		_, err = to.Write(content)
	}
	return err
}
