package fsops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// errGrepWhole says that a file is too large to be searched whole.
var errGrepWhole = fmt.Errorf("file is larger than %d MiB: matches that span lines were not searched", maxGrepSearchLine>>20)

// A lineBuffer cuts a text into blocks of whole lines. It is as large as the
// longest line, but at most maxGrepSearchLine: of a longer one it gives the
// beginning, and skips the rest.
type lineBuffer struct {
	ctx    context.Context
	r      io.Reader
	blocks *blockPool
	// size is the size of the file when it was opened, 0 if that is not known; read
	// is how many bytes were read.
	size, read int64
	// whole asks for all of the text in one block.
	whole bool
	buf   []byte
	start int // buf[start:end] was read and not yet given
	end   int
	// started says that the file's beginning was read.
	started bool
	// mark is the length of the byte order mark in front of the block. The block has
	// no NUL before checked.
	mark    int64
	checked int
	// skipped is how many bytes the block, which is a single line, lacks.
	skipped int64
	// binary says that there is a NUL in the file's beginning, or in the skipped part.
	binary bool
	// waits says that the text ended where reading on would wait.
	waits bool
	// admit waits until the buffer may grow beyond maxGrepKeep. done, if not nil, is to
	// be called when the buffer is small again.
	admit func() (done func(), err error)
	done  func()
}

// reset begins with another text.
func (b *lineBuffer) reset(ctx context.Context, r io.Reader, size int64) {
	b.release()
	buf := b.buf
	if buf == nil {
		buf = b.blocks.get()[:]
	}
	*b = lineBuffer{ctx: ctx, r: r, blocks: b.blocks, size: size, whole: b.whole, buf: buf, admit: b.admit}
}

// close lets go of the buffer. Those of the usual size are used again.
func (b *lineBuffer) close() {
	b.release()
	if len(b.buf) == blockSize {
		b.blocks.put((*[blockSize]byte)(b.buf))
	}
	b.buf = nil
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
	b.skipped, b.mark, b.checked = 0, 0, 0
	copy(b.buf, b.buf[b.start:b.end])
	b.start, b.end = 0, b.end-b.start
	for {
		err := b.fill()
		if !b.started {
			b.started = true
			err = b.begin(err)
		}
		if err != nil {
			b.start = b.end
			return b.buf[:b.end], err
		}
		if i := bytes.LastIndexByte(b.buf[:b.end], '\n'); i >= 0 && !b.whole {
			b.start = i + 1
			return b.buf[:b.start], nil
		}
		if b.nul() { // the text ends before it
			b.start = b.end
			return b.buf[:b.end], nil
		}
		if len(b.buf) >= maxGrepSearchLine {
			return b.overflow()
		}
		if err := b.grow(); err != nil {
			return nil, err
		}
	}
}

// begin looks at the file's beginning. Reading it ended with err.
func (b *lineBuffer) begin(err error) error {
	if r := decoder(b.buf[:b.end], b.r); r != nil {
		b.r, b.size, b.end = r, 0, 0
		err = b.fill()
	}
	if bytes.HasPrefix(b.buf[:b.end], utf8Mark) {
		b.mark = int64(len(utf8Mark))
		b.end = copy(b.buf, b.buf[len(utf8Mark):b.end])
	}
	b.binary = b.nul()
	if b.whole && b.size > maxGrepSearchLine {
		return errGrepWhole
	}
	return err
}

// nul looks for a NUL in the block.
func (b *lineBuffer) nul() bool {
	if bytes.IndexByte(b.buf[b.checked:b.end], 0) >= 0 {
		return true
	}
	b.checked = b.end
	return false
}

// grow makes the buffer twice as large, or as large as the whole file.
func (b *lineBuffer) grow() (err error) {
	size := 2 * len(b.buf)
	for b.whole && int64(size) <= b.size && size < maxGrepSearchLine {
		size *= 2
	}
	if size > maxGrepKeep && b.done == nil {
		if b.done, err = b.admit(); err != nil {
			return err
		}
	}
	larger := make([]byte, size)
	copy(larger, b.buf[:b.end])
	b.buf = larger
	return nil
}

// fill reads until the buffer is full. It saves the read at the end if the last one was
// short, and the file's whole size was read.
func (b *lineBuffer) fill() error {
	for b.end < len(b.buf) {
		n, err := b.r.Read(b.buf[b.end:])
		b.end += n
		b.read += int64(n)
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, errWouldWait) {
			b.waits = true
			return io.EOF
		}
		if err != nil {
			return err
		}
		if b.read == b.size && b.end < len(b.buf) {
			return io.EOF
		}
	}
	return nil
}

// overflow deals with a text that is too large for the buffer.
func (b *lineBuffer) overflow() ([]byte, error) {
	if !b.whole {
		return b.cut()
	}
	var one [1]byte
	n, err := io.ReadFull(b.r, one[:])
	b.start = b.end
	switch {
	case n > 0:
		return nil, errGrepWhole
	case errors.Is(err, io.EOF):
		return b.buf[:b.end], err
	}
	return nil, err
}

// cut gives the beginning of a line that fills the buffer.
func (b *lineBuffer) cut() ([]byte, error) {
	rest := make([]byte, blockSize)
	for {
		if err := b.ctx.Err(); err != nil {
			return nil, err
		}
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
