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
	"sync"
	"sync/atomic"

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

func removeAny(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
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

// These hide the methods by which io.Copy would take another way than through the buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)

// check reads an object, and returns an error if it is not whole.
func (o *objects) check(h Hash) error { return o.writeTo(io.Discard, h) }
