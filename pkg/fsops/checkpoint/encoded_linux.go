package checkpoint

import (
	"crypto/sha256"
	"io/fs"
	"slices"

	"github.com/klauspost/compress/s2"
)

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
