package object

import (
	"fmt"

	"github.com/klauspost/compress/s2"
)

const (
	// MaxDir is how many bytes the object of a directory has at most.
	MaxDir = 1 << 28
	// WholeSize is the size up to which content without holes is read at once, and is in a pack.
	WholeSize = 1 << 20
)

// A Coder has what one goroutine needs to read and write objects.
type Coder struct {
	// Content is what was read last. It has its memory for what comes next.
	Content []byte
	packed  []byte
}

// Buffer returns n bytes of memory. They are the coder's Content from now on.
func (c *Coder) Buffer(n int64) []byte {
	c.Content = grow(c.Content, n)
	return c.Content
}

// Decode returns the content of an object that is stored as text, of up to limit bytes. It is the coder's. If it is not what
// its hash says, the error is ErrCorrupt.
func (c *Coder) Decode(h Hash, text []byte, how Encoding, limit int64) (content []byte, err error) {
	size, ok := decodedSize(text, how)
	if !ok || size > limit {
		return nil, Damaged(h)
	}
	content = text
	if how == S2 {
		c.Content = grow(c.Content, size)
		if content, err = s2.Decode(c.Content, text); err != nil {
			return nil, Damaged(h)
		}
	}
	if Sum(content) != h {
		return nil, Damaged(h)
	}
	return content, nil
}

// decodedSize returns how many bytes the content of an object has, as its text says. It reports false for text that cannot be
// decoded.
func decodedSize(text []byte, how Encoding) (size int64, ok bool) {
	switch how {
	case Raw:
		return int64(len(text)), true
	case S2:
		n, err := s2.DecodedLen(text)
		return int64(n), err == nil
	}
	return 0, false
}

// Damaged returns the error of an object that is not what its hash says. It is [ErrCorrupt].
func Damaged(h Hash) error { return fmt.Errorf("%w: object %s is not what it was", ErrCorrupt, h) }

func grow(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}
