package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The object of a file with holes is a header, the extents that have data, and the data:
// numbers are of 8 bytes, the highest first.
//
//	header | number of extents | (offset | length)… | data…

const (
	sparseHeader = "podagent holes 1\n"
	// maxExtents bounds how many parts a file with holes may have: 16 MiB of a header.
	maxExtents = 1 << 20
)

// An extent is a part of a file that is no hole.
type extent struct{ offset, length int64 }

// extents returns the parts of a file that have data, up to its size.
func extents(file *os.File, size int64) (list []extent, err error) {
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
		if list = append(list, extent{from, to - from}); len(list) > maxExtents {
			return nil, fmt.Errorf("%w: the file has more than %d holes", ErrTooLarge, maxExtents)
		}
		at = to
	}
	return list, nil
}

// writeSparse writes the object of a file with holes.
func writeSparse(w io.Writer, file *os.File, list []extent, buf []byte) error {
	b := append([]byte(sparseHeader), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint64(b[len(sparseHeader):], uint64(len(list)))
	for _, e := range list {
		b = binary.BigEndian.AppendUint64(b, uint64(e.offset))
		b = binary.BigEndian.AppendUint64(b, uint64(e.length))
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, e := range list {
		n, err := io.CopyBuffer(onlyWriter{w}, onlyReader{io.NewSectionReader(file, e.offset, e.length)}, buf)
		if err == nil && n < e.length {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A sparseReader takes the object of a file with holes, and writes the data to a file. The
// file has its size already.
type sparseReader struct {
	file    *os.File
	size    int64
	header  []byte
	need    int // bytes of the header
	extents []extent
	done    int64 // bytes of the first extent
}

func newSparseReader(file *os.File, size int64) *sparseReader {
	return &sparseReader{file: file, size: size, need: len(sparseHeader) + 8}
}

var errSparse = fmt.Errorf("%w: holes that are none", ErrCorrupt)

func (r *sparseReader) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		var took int
		if len(r.header) < r.need {
			took = min(len(p), r.need-len(r.header))
			r.header = append(r.header, p[:took]...)
			err = r.parse()
		} else if len(r.extents) == 0 {
			err = errSparse
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
func (r *sparseReader) parse() error {
	first := len(sparseHeader) + 8
	if len(r.header) < r.need {
		return nil
	}
	if r.need == first {
		count := binary.BigEndian.Uint64(r.header[len(sparseHeader):])
		if string(r.header[:len(sparseHeader)]) != sparseHeader || count > maxExtents {
			return errSparse
		}
		if r.need += int(count) * 16; count > 0 {
			return nil
		}
	}
	end := int64(0)
	for b := r.header[first:]; len(b) > 0; b = b[16:] {
		e := extent{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
		if e.offset < end || e.length <= 0 || e.offset > r.size || e.length > r.size-e.offset {
			return errSparse
		}
		end = e.offset + e.length
		r.extents = append(r.extents, e)
	}
	return nil
}

// data writes to the first extent that is not whole.
func (r *sparseReader) data(p []byte) (int, error) {
	e := r.extents[0]
	p = p[:min(int64(len(p)), e.length-r.done)]
	n, err := r.file.WriteAt(p, e.offset+r.done)
	if r.done += int64(n); r.done == e.length {
		r.extents, r.done = r.extents[1:], 0
	}
	return n, err
}

// whole returns an error if something of the object is missing.
func (r *sparseReader) whole() error {
	if len(r.header) < r.need || len(r.extents) > 0 {
		return errSparse
	}
	return nil
}
