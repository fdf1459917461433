// Package holes stores files with holes.
//
// The object of such a file has the parts that are no holes: a header, where these parts are, and their data, one behind
// the other. Numbers have 8 bytes, the highest first.
//
//	header | number of extents | (offset | length)… | data…
package holes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

const (
	header = "podagent holes 1\n"
	// maxExtents bounds how many parts a file with holes may have: 16 MiB of a header.
	maxExtents = 1 << 20
)

// An Extent is a part of a file that is no hole, in bytes.
type Extent struct{ Offset, Length int64 }

// Extents returns the parts of a file that have data, up to its size. Too many of them are [object.ErrTooLarge].
func Extents(file *os.File, size int64) (list []Extent, err error) {
	for at := int64(0); at < size; {
		from, err := file.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // a hole up to the end
		}
		if err != nil {
			return nil, err
		}
		to, err := file.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		if from, to = min(from, size), min(to, size); to <= at {
			break
		}
		if list = append(list, Extent{from, to - from}); len(list) > maxExtents {
			return nil, fmt.Errorf("%w: the file has more than %d holes", object.ErrTooLarge, maxExtents)
		}
		at = to
	}
	return list, nil
}

// Encode writes the object of a file with these extents to w, with a buffer for its data. A file that is shorter than
// they say is [io.ErrUnexpectedEOF].
func Encode(w io.Writer, file *os.File, list []Extent, buf []byte) error {
	b := append([]byte(header), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(b[len(header):], uint64(len(list)))
	for _, e := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Offset))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Length))
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, e := range list {
		n, err := io.CopyBuffer(w, io.NewSectionReader(file, e.Offset, e.Length), buf)
		if err == nil && n < e.Length {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A Decoder takes the object of a file with holes, and writes the data to a file. The
// file has its size already.
type Decoder struct {
	file    *os.File
	size    int64
	header  []byte
	need    int // bytes of the header
	extents []Extent
	done    int64 // bytes of the first extent
}

// NewDecoder returns a Decoder for a file that is empty and has this size.
func NewDecoder(file *os.File, size int64) *Decoder {
	return &Decoder{file: file, size: size, need: len(header) + 8}
}

var errExtents = fmt.Errorf("%w: holes that are none", object.ErrCorrupt)

// Write takes more of the object. One that is not well-formed, or goes beyond the size of the file, is [object.ErrCorrupt].
func (r *Decoder) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		var took int
		if len(r.header) < r.need {
			took = min(len(p), r.need-len(r.header))
			r.header = append(r.header, p[:took]...)
			err = r.parse()
		} else if len(r.extents) == 0 {
			err = errExtents
		} else {
			took, err = r.data(p)
		}
		n, p = n+took, p[took:]
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// parse reads the header once it is there, first up to the number of the extents.
func (r *Decoder) parse() error {
	first := len(header) + 8
	if len(r.header) < r.need {
		return nil
	}
	if r.need == first {
		count := binary.BigEndian.Uint64(r.header[len(header):])
		if string(r.header[:len(header)]) != header || count > maxExtents {
			return errExtents
		}
		if r.need += int(count) * 16; count > 0 {
			return nil
		}
	}
	end := int64(0)
	for b := r.header[first:]; len(b) > 0; b = b[16:] {
		e := Extent{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
		if e.Offset < end || e.Length <= 0 || e.Offset > r.size || e.Length > r.size-e.Offset {
			return errExtents
		}
		end = e.Offset + e.Length
		r.extents = append(r.extents, e)
	}
	return nil
}

// data writes to the first extent that is not whole.
func (r *Decoder) data(p []byte) (int, error) {
	e := r.extents[0]
	p = p[:min(int64(len(p)), e.Length-r.done)]
	n, err := r.file.WriteAt(p, e.Offset+r.done)
	if r.done += int64(n); r.done == e.Length {
		r.extents, r.done = r.extents[1:], 0
	}
	return n, err
}

// Whole returns [object.ErrCorrupt] if something of the object is missing.
func (r *Decoder) Whole() error {
	if len(r.header) < r.need || len(r.extents) > 0 {
		return errExtents
	}
	return nil
}
