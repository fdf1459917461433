package object

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Store has objects. Its methods may be called concurrently, but for those that say otherwise. Callers say with
// [Store.Use] that they use it.
type Store struct {
	dir   string // of the objects that have files of their own
	tmp   string
	packs packs
	// unverified are the packs with what was not compared with its hash when it was put: see PutUnverified.
	unverified packs
	// used counts the bytes of all objects; checked is what it was when take last looked whether there is room.
	used, checked atomic.Int64
	// counted says that used has been counted.
	counted bool
	// Beside, if it is not nil, returns what the volume can hold besides the tree and the objects. If it cannot tell,
	// nothing is put.
	Beside func() (int64, error)
	// hashOnly has nothing stored; trees are directories that only memory has, if it is not nil.
	hashOnly bool
	trees    map[Hash][]byte
	// Suspect has objects that are there read before they count as stored: they may have been cut off when the machine
	// went down.
	Suspect bool
	coders  sync.Pool // of *Coder
}

const (
	// worthwhile is the size from which content is compressed to be sent, and storedWorthwhile to be stored: less is many of
	// a tree's files, but few of its bytes.
	worthwhile       = 128
	storedWorthwhile = 4 << 10
	// CopySize is how much of a larger object is in memory.
	CopySize = 256 << 10
)

// Dirs are the paths of a store's directories: of the large objects, of the packs, of those with unverified objects, and of the
// files that become one or the other. All are on one file system. Where that of unverified objects is missing, there are none.
type Dirs struct{ Large, Packs, Unverified, Temporary string }

// New returns the store with these directories.
func New(d Dirs) *Store {
	o := &Store{packs: packs{full: packSize}, unverified: packs{full: packSize}}
	o.Place(d)
	return o
}

// HashOnly returns a store that keeps nothing of what is put into it. It tells the hashes.
func HashOnly() *Store { return &Store{hashOnly: true} }

// Overlay returns a store that has the objects of this one, and in memory the directories that are put into it. It writes nothing.
func (o *Store) Overlay() *Store {
	over := New(Dirs{Large: o.dir, Packs: o.packs.dir, Unverified: o.unverified.dir, Temporary: o.tmp})
	over.hashOnly, over.trees = true, map[Hash][]byte{}
	return over
}

// Place gives the store other paths of the same directories. Nobody else may use it meanwhile.
func (o *Store) Place(d Dirs) {
	o.dir, o.tmp = d.Large, d.Temporary
	o.packs.place(d.Packs, d.Temporary)
	o.unverified.place(d.Unverified, d.Temporary)
}

// Use keeps in memory where the objects in packs are until done is called. What was put and not sealed is lost then.
func (o *Store) Use() (done func()) {
	packs, unverified := o.packs.use(), o.unverified.use()
	return func() {
		packs()
		unverified()
	}
}

// Coder returns a coder for one goroutine, until it is released.
func (o *Store) Coder() *Coder {
	if c, ok := o.coders.Get().(*Coder); ok {
		return c
	}
	return new(Coder)
}

// Release lets others use a coder.
func (o *Store) Release(c *Coder) { o.coders.Put(c) }

// Has reports whether the store has an object.
func (o *Store) Has(h Hash) bool {
	if ok, err := o.hasPacked(h); ok || err != nil {
		return ok
	}
	return o.hasLarge(h)
}

// FileOf returns the path of the file that an object is in: a pack, or a file of its own.
func (o *Store) FileOf(h Hash) (string, error) {
	at, packed, err := o.packs.find(h)
	if packed {
		return o.packs.path(at), err
	}
	return o.path(h), err
}

// hasPacked reports whether a pack has an object.
func (o *Store) hasPacked(h Hash) (bool, error) {
	at, ok, err := o.packs.find(h)
	if err != nil || !ok || at.whole || !o.Suspect {
		return ok, err
	}
	c := o.Coder()
	defer o.Release(c)
	_, err = o.unpack(c, h, &o.packs, at, MaxDir)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	return err == nil, err
}

// Put stores content of up to WholeSize, or a directory. It is there for other processes once it is sealed.
func (o *Store) Put(content []byte) (Hash, error) {
	h := Sum(content)
	if o.hashOnly {
		return h, nil
	}
	if ok, err := o.hasPacked(h); ok || err != nil {
		return h, err
	}
	size, err := o.packs.add(h, true, func(b []byte) ([]byte, Encoding) { return encode(b, content, storedWorthwhile) })
	if err == nil {
		err = o.take(size)
	}
	return h, err
}

// Seal makes what was put part of the store, also for processes to come. Nobody may put objects meanwhile.
func (o *Store) Seal() error { return errors.Join(o.packs.sealAll(), o.unverified.sealAll()) }

// roomStep is how much is written until the room is looked at again.
const roomStep = 4 << 20

// take counts bytes, and fails with [ErrNoRoom] if the objects get larger than what is free: a store
// takes half of that at most.
func (o *Store) take(n int64) error {
	used := o.used.Add(n)
	if used-o.checked.Load() < roomStep {
		return nil
	}
	o.checked.Store(used)
	free, err := o.free()
	if err != nil {
		return err
	}
	if used > free {
		return fmt.Errorf("%w: the checkpoints have %d MiB, and %d MiB are free", ErrNoRoom, used>>20, free>>20)
	}
	return nil
}

// free returns how much can still be written.
func (o *Store) free() (int64, error) {
	free := int64(math.MaxInt64)
	var st unix.Statfs_t
	if err := unix.Statfs(o.dir, &st); err == nil && st.Blocks > 0 && st.Bsize > 0 { // else it does not tell
		free = int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize)) * uint64(st.Bsize))
	}
	if o.Beside == nil {
		return free, nil
	}
	beside, err := o.Beside()
	return min(free, beside), err
}

// Temporary returns a path, which nobody can foresee, for a new file that gets its place when it is whole.
func (o *Store) Temporary() string { return filepath.Join(o.tmp, rand.Text()) }

// missing returns the error of an object that cannot be opened or read: [ErrCorrupt] if it is gone or damaged.
func missing(h Hash, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: object %s is gone", ErrCorrupt, h)
	case errors.Is(err, ErrCorrupt):
		return Damaged(h)
	}
	return err
}

// Read returns an object that has up to limit bytes. The content is the coder's, until it reads
// another one. An object that is missing, longer, or not what its hash says is [ErrCorrupt].
func (o *Store) Read(c *Coder, h Hash, limit int64) ([]byte, error) {
	in, at, err := o.find(h)
	if err != nil {
		return nil, err
	}
	if in != nil {
		return o.unpack(c, h, in, at, limit)
	}
	file, size, err := o.open(h)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if size > limit {
		return nil, Damaged(h)
	}
	c.packed = grow(c.packed, size)
	if _, err := io.ReadFull(file, c.packed); err != nil {
		return nil, missing(h, err)
	}
	return c.Decode(h, c.packed, Raw, limit)
}

// PutDir is Put for a directory, which an overlay has in memory.
func (o *Store) PutDir(text []byte) (Hash, error) {
	h, err := o.Put(text)
	if o.trees != nil && !o.Has(h) {
		o.trees[h] = bytes.Clone(text)
	}
	return h, err
}

// ReadDir is Read for a directory, which an overlay may have in memory alone. Nobody may change the bytes.
func (o *Store) ReadDir(c *Coder, h Hash) ([]byte, error) {
	if text, ok := o.trees[h]; ok {
		return text, nil
	}
	return o.Read(c, h, MaxDir)
}

// Check reads an object. One that is missing or not what its hash says is [ErrCorrupt].
func (o *Store) Check(h Hash) error { return o.WriteTo(io.Discard, h) }

// CheckThere returns an error unless there is something to read of an object. One that is missing is [ErrCorrupt].
func (o *Store) CheckThere(h Hash) error {
	ok, err := o.hasPacked(h)
	if err == nil && !ok {
		ok, err = o.HasUnverified(h)
	}
	if err == nil && !ok && !o.hasLarge(h) {
		err = missing(h, fs.ErrNotExist)
	}
	return err
}
