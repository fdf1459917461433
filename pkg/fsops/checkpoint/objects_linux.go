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

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// objects are the files of a store that have content and directories. The name of a file is
// its hash; the last byte says how the rest is encoded, so that the rest can share the blocks of the
// file that it was copied from.
type objects struct {
	dir string
	tmp string
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

// What the last byte of an object says.
const (
	raw        = 0
	compressed = 1
)

const (
	// wholeSize is the size up to which content is read at once, and compressed.
	wholeSize = 1 << 20
	// worthwhile is the size from which content is compressed. Smaller files take one
	// block in either case.
	worthwhile = 4 << 10
	// copySize is how much of a larger file is in memory.
	copySize = 256 << 10
)

// A coder has what one goroutine needs to read and write objects.
type coder struct {
	content []byte
	packed  []byte
	enc     *zstd.Encoder
	dec     *zstd.Decoder
}

func (o *objects) coder() *coder {
	if c, ok := o.coders.Get().(*coder); ok {
		return c
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constant
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxTreeSize))
	if err != nil {
		panic(err)
	}
	return &coder{enc: enc, dec: dec}
}

func (o *objects) path(h Hash) string {
	name := h.String()
	return filepath.Join(o.dir, name[:2], name[2:])
}

// has reports whether the store has an object.
func (o *objects) has(h Hash) bool {
	if o.suspect {
		return o.check(h) == nil
	}
	var st unix.Stat_t
	return unix.Lstat(o.path(h), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
}

// put stores content that is in memory.
func (o *objects) put(c *coder, content []byte) (Hash, error) {
	h := Hash(sha256.Sum256(content))
	if o.hashOnly || o.has(h) {
		return h, nil
	}
	c.packed = append(c.packed[:0], content...)
	how := byte(raw)
	if len(content) >= worthwhile {
		// A block of 4 KiB is the least that a file system saves.
		if packed := c.enc.EncodeAll(content, c.packed[:0]); len(packed) < len(content)-worthwhile/2 {
			c.packed, how = packed, compressed
		} else {
			c.packed = append(packed[:0], content...)
		}
	}
	c.packed = append(c.packed, how)
	return h, o.write(h, c.packed)
}

// write makes the file of an object.
func (o *objects) write(h Hash, text []byte) error {
	tmp := o.temporary()
	err := o.take(int64(len(text)))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, removeAny(tmp))
	}
	return o.publish(tmp, h)
}

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
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Rename(tmp, path)
		}
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

// open opens an object for reading, and returns how long and of which encoding it is.
func (o *objects) open(h Hash) (file *os.File, size int64, how byte, err error) {
	file, err = os.OpenFile(o.path(h), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, 0, missing(h, err)
	}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() < 1) {
		err = damaged(h)
	}
	var last [1]byte
	if err == nil {
		size = info.Size() - 1
		_, err = file.ReadAt(last[:], size)
	}
	if err != nil {
		file.Close()
		return nil, 0, 0, missing(h, err)
	}
	return file, size, last[0], nil
}

func damaged(h Hash) error { return fmt.Errorf("%w: object %s is not what it was", ErrCorrupt, h) }

func missing(h Hash, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: object %s is gone", ErrCorrupt, h)
	case errors.Is(err, unix.ELOOP): // a link in its place
		return damaged(h)
	}
	return err
}

// read returns an object that has up to limit bytes. The content is the coder's, until it reads
// another one.
func (o *objects) read(c *coder, h Hash, limit int64) ([]byte, error) {
	file, size, how, err := o.open(h)
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
	content := c.packed
	if how == compressed {
		var header zstd.Header
		if err := header.Decode(c.packed); err != nil || !header.HasFCS || header.FrameContentSize > uint64(limit) {
			return nil, damaged(h)
		}
		if c.content, err = c.dec.DecodeAll(c.packed, c.content[:0]); err != nil {
			return nil, damaged(h)
		}
		content = c.content
	}
	if how > compressed || Hash(sha256.Sum256(content)) != h {
		return nil, damaged(h)
	}
	return content, nil
}

func grow(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// putTree stores a directory.
func (o *objects) putTree(c *coder, text []byte) (Hash, error) {
	h, err := o.put(c, text)
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
	file, size, how, err := o.open(h)
	if err != nil {
		return err
	}
	defer file.Close()
	c := o.coder()
	defer o.coders.Put(c)
	if how == compressed || size <= wholeSize {
		content, err := o.read(c, h, wholeSize)
		if err == nil {
			_, err = w.Write(content)
		}
		return err
	}
	sum := sha256.New()
	c.content = grow(c.content, copySize)
	n, err := io.CopyBuffer(onlyWriter{io.MultiWriter(sum, w)}, onlyReader{io.LimitReader(file, size)}, c.content)
	if err == nil && (n != size || Hash(sum.Sum(nil)) != h) {
		err = damaged(h)
	}
	return err
}

// fill writes an object to an empty file. It clones the object where the file system can do that.
func (o *objects) fill(to *os.File, h Hash) error {
	file, size, how, err := o.open(h)
	if err != nil {
		return err
	}
	defer file.Close()
	if how != raw || size <= wholeSize || unix.IoctlFileClone(int(to.Fd()), int(file.Fd())) != nil {
		return o.writeTo(to, h)
	}
	if err := to.Truncate(size); err != nil {
		return err
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
