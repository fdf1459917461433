package fsops

import (
	"bytes"
	"errors"
	"io"
)

// A lineBuffer cuts a stream into blocks of whole lines. It is as large as the
// longest line, but at most maxGrepSearchLine: of a longer one it gives the
// beginning, and skips the rest.
type lineBuffer struct {
	r     io.Reader
	buf   []byte
	start int // buf[start:end] was read and not yet given
	end   int
	// started says that the file's beginning was read.
	started bool
	// skipped is how many bytes the block, which is a single line, lacks.
	skipped int64
	// binary says that there is a NUL in the file's beginning, or in what was
	// skipped.
	binary bool
	// admit waits until the buffer may grow beyond maxGrepKeep, and done, if
	// not nil, says that it no longer does.
	admit func() (done func(), err error)
	done  func()
}

// reset begins with another stream.
func (b *lineBuffer) reset(r io.Reader, admit func() (func(), error)) {
	b.release()
	buf := b.buf
	if buf == nil {
		buf = make([]byte, blockSize)
	}
	*b = lineBuffer{r: r, buf: buf, admit: admit}
}

// release lets go of a buffer that is too large to be kept.
func (b *lineBuffer) release() {
	if b.done != nil {
		b.buf = nil
		b.done()
		b.done = nil
	}
}

// next returns the next block, which is valid until the call after. With the
// last one, which may be empty, comes io.EOF or the error that ended it.
func (b *lineBuffer) next() ([]byte, error) {
	b.skipped = 0
	copy(b.buf, b.buf[b.start:b.end])
	b.start, b.end = 0, b.end-b.start
	for {
		err := b.fill()
		if !b.started {
			b.started = true
			b.binary = bytes.IndexByte(b.buf[:b.end], 0) >= 0
		}
		if err != nil {
			b.start = b.end
			return b.buf[:b.end], err
		}
		if i := bytes.LastIndexByte(b.buf[:b.end], '\n'); i >= 0 {
			b.start = i + 1
			return b.buf[:b.start], nil
		}
		if len(b.buf) >= maxGrepSearchLine {
			return b.cut()
		}
		if err := b.grow(); err != nil {
			return nil, err
		}
	}
}

// grow makes the buffer twice as large.
func (b *lineBuffer) grow() (err error) {
	if 2*len(b.buf) > maxGrepKeep && b.done == nil {
		if b.done, err = b.admit(); err != nil {
			return err
		}
	}
	larger := make([]byte, 2*len(b.buf))
	copy(larger, b.buf)
	b.buf = larger
	return nil
}

// fill reads until the buffer is full.
func (b *lineBuffer) fill() error {
	for b.end < len(b.buf) {
		n, err := b.r.Read(b.buf[b.end:])
		b.end += n
		if err != nil {
			return err
		}
	}
	return nil
}

// cut gives the beginning of a line that fills the buffer.
func (b *lineBuffer) cut() ([]byte, error) {
	rest := make([]byte, blockSize)
	for {
		n, err := b.r.Read(rest)
		end := bytes.IndexByte(rest[:n], '\n')
		if end < 0 {
			b.skip(rest[:n])
			if err == nil {
				continue
			}
			b.start = b.end
			return b.buf[:b.end], err
		}
		b.skip(rest[:end])
		block := b.buf[:b.end]
		// What follows the line is kept in a buffer of the usual size, and
		// the next call begins with it.
		b.buf = make([]byte, blockSize)
		b.start, b.end = 0, copy(b.buf, rest[end+1:n])
		if err != nil && !errors.Is(err, io.EOF) {
			return block, err
		}
		return block, nil
	}
}

func (b *lineBuffer) skip(p []byte) {
	b.skipped += int64(len(p))
	b.binary = b.binary || bytes.IndexByte(p, 0) >= 0
}
