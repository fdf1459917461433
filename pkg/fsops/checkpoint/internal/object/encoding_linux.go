package object

import (
	"io/fs"
	"slices"

	"github.com/klauspost/compress/s2"
)

// encode appends content to b, compressed if that makes it shorter by a sixteenth, and returns which it is.
func encode(b, content []byte) ([]byte, Encoding) {
	if len(content) < worthwhile {
		return append(b, content...), Raw
	}
	b = slices.Grow(b, s2.MaxEncodedLen(len(content)))
	if packed := s2.Encode(b[len(b):cap(b)], content); len(packed) <= len(content)-len(content)/16 {
		return b[:len(b)+len(packed)], S2
	}
	return append(b, content...), Raw
}

// packed returns an object that is in a pack, as it is stored there, and how it is encoded: for a transfer to another
// store. The text is in buf, if that is large enough. If it is in no pack, the error is ErrCorrupt.
func (o *Store) packed(h Hash, buf []byte) (text []byte, how Encoding, err error) {
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

// PutPacked stores an object that packed has returned, of up to limit bytes, if it is what its hash says. Else the error is ErrCorrupt.
func (o *Store) PutPacked(c *Coder, h Hash, text []byte, how Encoding, limit int64) error {
	if ok, err := o.hasPacked(h); ok || err != nil {
		return err
	}
	if _, err := c.Decode(h, text, how, limit); err != nil {
		return err
	}
	size, err := o.packs.add(h, true, func(b []byte) ([]byte, Encoding) { return append(b, text...), how })
	if err == nil {
		err = o.take(size)
	}
	return err
}

// unpack returns the content of an object in a pack. It is the coder's.
func (o *Store) unpack(c *Coder, h Hash, at place, limit int64) (content []byte, err error) {
	if int64(at.length) > limit {
		return nil, Damaged(h)
	}
	if c.packed, err = o.packs.read(at, c.packed); err != nil {
		return nil, missing(h, err)
	}
	if content, err = c.Decode(h, c.packed, at.how, limit); err == nil && !at.whole {
		o.packs.believe(h, at)
	}
	return content, err
}
