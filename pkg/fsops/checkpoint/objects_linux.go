package checkpoint

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/s2"
	"golang.org/x/sys/unix"
)

// objects are what a store has of content and directories, each under its hash. Content that was in memory as a whole is
// in packs. Larger content has a file of its own, whose name is the hash. That may share blocks with the file that it was copied from.
type objects struct {
	dir   string // of the large ones
	tmp   string
	packs packs
	// used counts the bytes of all objects; checked is what it was when take last looked whether there is room.
	used, checked atomic.Int64
	// beside, if it is not nil, returns what the volume can hold besides the tree and the objects.
	beside func() int64
	// hashOnly has nothing stored; trees are directories that only memory has, if it is not nil.
	hashOnly bool
	trees    map[Hash][]byte
	// suspect has objects that are there read, before one is believed to be the content: they
	// may have been cut off when the machine went down.
	suspect bool
	coders  sync.Pool // of *coder
}

// How an object in a pack is encoded.
const (
	raw        = 0
	compressed = 1 // by S2, which takes a third of the time of Zstandard at its fastest
)

const (
	// wholeSize is the size up to which content is read at once, and compressed.
	wholeSize = 1 << 20
	// worthwhile is the size from which content is compressed.
	worthwhile = 128
	// copySize is how much of a larger file is in memory.
	copySize = 256 << 10
)

// newObjects returns the objects of the store in a directory.
func newObjects(dir string) *objects {
	tmp := filepath.Join(dir, temporaryDir)
	return &objects{dir: filepath.Join(dir, objectsDir), tmp: tmp, packs: packs{dir: filepath.Join(dir, packsDir), tmp: tmp, full: packSize}}
}

// A coder has what one goroutine needs to read and write objects.
type coder struct {
	content []byte
	packed  []byte
}

func (o *objects) coder() *coder {
	if c, ok := o.coders.Get().(*coder); ok {
		return c
	}
	return new(coder)
}

// path is that of a large object.
func (o *objects) path(h Hash) string { return filepath.Join(o.dir, h.String()) }

// has reports whether the store has an object.
func (o *objects) has(h Hash) bool {
	if ok, err := o.hasPacked(h); ok || err != nil {
		return ok
	}
	return o.hasLarge(h)
}

// hasPacked reports whether a pack has an object.
func (o *objects) hasPacked(h Hash) (bool, error) {
	at, ok, err := o.packs.find(h)
	if err != nil || !ok || at.whole || !o.suspect {
		return ok, err
	}
	c := o.coder()
	defer o.coders.Put(c)
	_, err = o.unpack(c, h, at, maxTreeSize)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

func (o *objects) hasLarge(h Hash) bool {
	if o.suspect {
		return o.check(h) == nil
	}
	var st unix.Stat_t
	return unix.Lstat(o.path(h), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// put stores content that is in memory.
func (o *objects) put(content []byte) (Hash, error) {
	h := Hash(sha256.Sum256(content))
	if o.hashOnly {
		return h, nil
	}
	if ok, err := o.hasPacked(h); ok || err != nil {
		return h, err
	}
	size, err := o.packs.add(h, true, func(b []byte) ([]byte, byte) { return encode(b, content) })
	if err == nil {
		err = o.take(size)
	}
	return h, err
}

// encode appends content to b, compressed if that makes it shorter by a sixteenth, and returns which it is.
func encode(b, content []byte) ([]byte, byte) {
	if len(content) < worthwhile {
		return append(b, content...), raw
	}
	b = slices.Grow(b, s2.MaxEncodedLen(len(content)))
	if packed := s2.Encode(b[len(b):cap(b)], content); len(packed) <= len(content)-len(content)/16 {
		return b[:len(b)+len(packed)], compressed
	}
	return append(b, content...), raw
}

// packed returns an object that is in a pack, as it is stored there, and how it is encoded: for a transfer to another
// store. The text is in buf, if that is large enough. If it is in no pack, the error is ErrCorrupt.
func (o *objects) packed(h Hash, buf []byte) (text []byte, how byte, err error) {
	at, ok, err := o.packs.find(h)
	if err == nil && !ok {
		err = missing(h, fs.ErrNotExist)
	}
	if err != nil {
		return nil, 0, err
	}
	text, err = o.packs.read(at, buf)
	return text, at.how, err
}

// putPacked stores an object that packed has returned, of up to limit bytes, if it is what its hash says. Else the error is ErrCorrupt.
func (o *objects) putPacked(c *coder, h Hash, text []byte, how byte, limit int64) error {
	if ok, err := o.hasPacked(h); ok || err != nil {
		return err
	}
	if _, err := decode(c, h, text, how, limit); err != nil {
		return err
	}
	size, err := o.packs.add(h, true, func(b []byte) ([]byte, byte) { return append(b, text...), how })
	if err == nil {
		err = o.take(size)
	}
	return err
}

// decode returns the content of an object that is stored as text. It is the coder's.
func decode(c *coder, h Hash, text []byte, how byte, limit int64) (content []byte, err error) {
	content = text
	if how == compressed {
		n, err := s2.DecodedLen(text)
		if err != nil || int64(n) > limit {
			return nil, damaged(h)
		}
		c.content = grow(c.content, int64(n))
		if content, err = s2.Decode(c.content, text); err != nil {
			return nil, damaged(h)
		}
	}
	if how > compressed || int64(len(content)) > limit || Hash(sha256.Sum256(content)) != h {
		return nil, damaged(h)
	}
	return content, nil
}

// unpack returns the content of an object in a pack. It is the coder's.
func (o *objects) unpack(c *coder, h Hash, at place, limit int64) (content []byte, err error) {
	if int64(at.length) > limit {
		return nil, damaged(h)
	}
	if c.packed, err = o.packs.read(at, c.packed); err != nil {
		return nil, missing(h, err)
	}
	if content, err = decode(c, h, c.packed, at.how, limit); err == nil && !at.whole {
		o.packs.believe(h, at)
	}
	return content, err
}

// seal makes what was put the store's, also for processes to come.
func (o *objects) seal() error { return o.packs.sealAll() }

// roomStep is how much is written until the room is looked at again.
const roomStep = 4 << 20

// take counts bytes, and fails with [ErrNoRoom] if the objects get larger than what is free: a store
// takes half of that at most.
func (o *objects) take(n int64) error {
	used := o.used.Add(n)
	if used-o.checked.Load() < roomStep {
		return nil
	}
	o.checked.Store(used)
	if free := o.free(); used > free {
		return fmt.Errorf("%w: the checkpoints have %d MiB, and %d MiB are free", ErrNoRoom, used>>20, free>>20)
	}
	return nil
}

// free returns how much can still be written.
func (o *objects) free() int64 {
	free := int64(math.MaxInt64)
	var st unix.Statfs_t
	if err := unix.Statfs(o.dir, &st); err == nil && st.Blocks > 0 && st.Bsize > 0 { // else it does not tell
		free = int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize)) * uint64(st.Bsize))
	}
	if o.beside != nil {
		free = min(free, o.beside())
	}
	return free
}

// temporary returns a new path, which nobody can foresee, for a file that becomes an object.
func (o *objects) temporary() string { return filepath.Join(o.tmp, rand.Text()) }

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

func removeAny(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// open opens a large object for reading.
func (o *objects) open(h Hash) (file *os.File, size int64, err error) {
	file, size, err = openRegular(o.path(h))
	if err != nil {
		err = missing(h, err)
	}
	return file, size, err
}

func damaged(h Hash) error { return fmt.Errorf("%w: object %s is not what it was", ErrCorrupt, h) }

func missing(h Hash, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: object %s is gone", ErrCorrupt, h)
	case errors.Is(err, ErrCorrupt):
		return damaged(h)
	}
	return err
}

// read returns an object that has up to limit bytes. The content is the coder's, until it reads
// another one.
func (o *objects) read(c *coder, h Hash, limit int64) ([]byte, error) {
	at, ok, err := o.packs.find(h)
	if err != nil {
		return nil, err
	}
	if ok {
		return o.unpack(c, h, at, limit)
	}
	file, size, err := o.open(h)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > limit {
		return nil, damaged(h)
	}
	c.packed = grow(c.packed, size)
	if _, err := io.ReadFull(file, c.packed); err != nil {
		return nil, missing(h, err)
	}
	return decode(c, h, c.packed, raw, limit)
}

func grow(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// putTree stores a directory.
func (o *objects) putTree(text []byte) (Hash, error) {
	h, err := o.put(text)
	if o.trees != nil && !o.has(h) {
		o.trees[h] = bytes.Clone(text)
	}
	return h, err
}

// tree reads the object of a directory.
func (o *objects) tree(h Hash) (tree, error) {
	if text, ok := o.trees[h]; ok {
		return decodeTree(text)
	}
	c := o.coder()
	defer o.coders.Put(c)
	text, err := o.read(c, h, maxTreeSize)
	if err != nil {
		return nil, err
	}
	return decodeTree(text)
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

// These hide the methods by which io.Copy would take another way than through the buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// check reads an object, and returns an error if it is not whole.
func (o *objects) check(h Hash) error { return o.writeTo(io.Discard, h) }
