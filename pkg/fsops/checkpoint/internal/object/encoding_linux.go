package object

import (
	"slices"

	"github.com/klauspost/compress/s2"
)

// encode appends content to b, compressed if it has this many bytes and gets shorter by a sixteenth, and returns which it is.
func encode(b, content []byte, from int) ([]byte, Encoding) {
	if len(content) < from {
		return append(b, content...), Raw
	}
	b = slices.Grow(b, s2.MaxEncodedLen(len(content)))
	if packed := s2.Encode(b[len(b):cap(b)], content); len(packed) <= len(content)-len(content)/16 {
		return b[:len(b)+len(packed)], S2
	}
	return append(b, content...), Raw
}

// unpack returns the content of an object in one of some packs. It is the coder's.
func (o *Store) unpack(c *Coder, h Hash, in *packs, at place, limit int64) (content []byte, err error) {
	if int64(at.length) > limit {
		return nil, Damaged(h)
	}
	if c.packed, err = in.read(at, c.packed); err != nil {
		return nil, missing(h, err)
	}
	if content, err = c.Decode(h, c.packed, at.how, limit); err == nil && !at.whole {
		in.believe(h, at)
	}
	return content, err
}
