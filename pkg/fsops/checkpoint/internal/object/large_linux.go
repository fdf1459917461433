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
		c := o.Coder()
		defer o.Release(c)
		return o.writeLarge(c, io.Discard, h) == nil
	}
	return o.isLarge(h)
}

// isLarge reports whether an object seems to have a file of its own.
func (o *Store) isLarge(h Hash) bool {
	var st unix.Stat_t
	return unix.Lstat(o.path(h), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// A List has the objects with files of their own that a store had when it was asked for. It is nil for a store that had many.
type List map[Hash]struct{}

// maxListed bounds a list, which others keep for long.
const maxListed = 1 << 16

// List returns the list of objects with files of their own.
func (o *Store) List() (List, error) {
	names, err := NamesIn(o.dir, maxListed)
	if errors.Is(err, ErrTooLarge) {
		return nil, nil
	}
	list := List{}
	for _, name := range names {
		if h, err := ParseHash(name); err == nil {
			list[h] = struct{}{}
		}
	}
	return list, err
}

// HasOf is Has, but does not ask the disk for an object with a file of its own that came after the list.
func (o *Store) HasOf(h Hash, list List) bool {
	if ok, err := o.hasPacked(h); ok || err != nil {
		return ok
	}
	_, listed := list[h]
	return (listed || list == nil) && o.hasLarge(h)
}

// publish gives a whole file the name of an object. Both it and what it replaces were counted, and one of them goes.
func (o *Store) publish(tmp string, h Hash, size int64) error {
	path := o.path(h)
	surplus := int64(0)
	var was unix.Stat_t
	if unix.Lstat(path, &was) == nil && was.Mode&unix.S_IFMT == unix.S_IFREG {
		surplus = min(was.Size, size)
	}
	err := os.Rename(tmp, path)
	if errors.Is(err, fs.ErrExist) { // a directory that somebody has put there
		err = errors.Join(RemoveTree(path), os.Rename(tmp, path))
	}
	if err != nil {
		surplus = size
		err = errors.Join(err, RemoveAny(tmp))
	}
	o.used.Add(-surplus)
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
	in, at, err := o.find(h)
	if err != nil {
		return err
	}
	c := o.Coder()
	defer o.Release(c)
	if in != nil {
		return o.writePacked(c, w, h, in, at)
	}
	return o.writeLarge(c, w, h)
}

// writePacked is WriteTo for an object in one of some packs.
func (o *Store) writePacked(c *Coder, w io.Writer, h Hash, in *packs, at place) error {
	content, err := o.unpack(c, h, in, at, MaxDir)
	if err == nil {
		_, err = w.Write(content)
	}
	return err
}

// writeLarge is WriteTo for an object with a file of its own.
func (o *Store) writeLarge(c *Coder, w io.Writer, h Hash) error {
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

// Fill writes an object to an empty file. It clones the object where the file system can do that.
func (o *Store) Fill(to *os.File, h Hash) error {
	in, at, err := o.find(h)
	if err != nil {
		return err
	}
	c := o.Coder()
	defer o.Release(c)
	if in != nil {
		return o.writePacked(c, to, h, in, at)
	}
	file, size, err := o.open(h)
	if err != nil {
		return err
	}
	defer file.Close()
	if unix.IoctlFileClone(int(to.Fd()), int(file.Fd())) == nil {
		return compare(c, to, size, h)
	}
	return o.writeLarge(c, to, h)
}

// compare returns an error unless the first size bytes of a file have this hash.
func compare(c *Coder, file *os.File, size int64, h Hash) error {
	sum := NewSum()
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(file, 0, size), c.Buffer(CopySize)); err != nil {
		return err
	}
	if Hash(sum.Sum(nil)) != h {
		return Damaged(h)
	}
	return nil
}
