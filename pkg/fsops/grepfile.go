package fsops

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/podagent/podagent/pkg/fsops/internal/linere"
)

var (
	// errGrepLine says that a part of a file was not searched.
	errGrepLine = fmt.Errorf("line is longer than %d MiB: its end was not searched", maxGrepSearchLine>>20)
	// errGrepBinary says that a file was not searched because it is binary.
	errGrepBinary = errors.New("file is binary")
)

// A grepFile searches one file after another. It goes over each byte once: it counts
// lines only if a match or another block follows them.
type grepFile struct {
	opts     *GrepOptions
	searcher *linere.Searcher
	spans    []linere.Span // to be used again
	out      *grepEmitter
	name     grepName

	block   []byte
	offset  int64 // where the block begins
	counted int   // up to where the block's lines were counted
	line    int64 // the number of the line there
	matches int64
	after   int          // context lines still to be given
	before  []GrepResult // lines of earlier blocks that may turn out to be context
	// missing is how many bytes the block's only line lacks.
	missing int64
}

// reset begins with another file.
func (f *grepFile) reset(name grepName) {
	f.name, f.line, f.offset = name, 1, 0
	f.matches, f.after, f.before = 0, 0, f.before[:0]
}

// run searches the text that lines gives. It returns errGrepBinary for a file that it
// left out, and errStop if it did not go on to the end.
func (f *grepFile) run(ctx context.Context, lines *lineBuffer) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		block, err := lines.next()
		if lines.binary && f.offset == 0 {
			return errGrepBinary
		} else if lines.binary { // in the rest of a line that is too long
			f.skip(&BinaryError{Offset: f.offset})
			return f.finish()
		}
		f.missing = lines.skipped
		f.offset += lines.mark
		text, binary := textOf(block, lines.checked)
		if err := f.search(ctx, text, err == nil && !binary); err != nil {
			return err
		}
		if binary {
			f.skip(&BinaryError{Offset: f.offset + int64(len(text))})
			return f.finish()
		}
		if lines.skipped > 0 {
			f.skipLineEnd()
		}
		switch {
		case errors.Is(err, io.EOF):
			return f.finish()
		case err != nil:
			return err
		}
		f.out.offer()
	}
}

// textOf returns the lines before the one with the first NUL, given that there
// is none in the first checked bytes.
func textOf(block []byte, checked int) (text []byte, binary bool) {
	checked = min(checked, len(block))
	nul := bytes.IndexByte(block[checked:], 0)
	if nul < 0 {
		return block, false
	}
	return block[:bytes.LastIndexByte(block[:checked+nul], '\n')+1], true
}

// search searches a block of whole lines, after which there may be more.
func (f *grepFile) search(ctx context.Context, block []byte, more bool) error {
	f.block, f.counted = block, 0
	from := 0 // the beginning of the lines that are not reported yet
	for from < len(block) && ctx.Err() == nil {
		start, end, ok := f.searcher.Next(block, from)
		if !ok {
			break
		}
		if err := f.match(from, start, end); err != nil {
			return err
		}
		from = min(end+1, len(block))
	}
	if err := ctx.Err(); err != nil { // the searcher gave up
		return err
	}
	if f.opts.Report == GrepLines {
		if err := f.leave(from, more); err != nil {
			return err
		}
	}
	if more {
		f.lineAt(len(block))
		f.offset += int64(len(block))
	}
	return nil
}

// match reports the line from start to end, the first that matches at or after
// from.
func (f *grepFile) match(from, start, end int) error {
	switch f.opts.Report {
	case GrepFiles:
		f.matches++
		return cmp.Or(f.finish(), errStop)
	case GrepLines:
		var err error
		if from, err = f.giveAfter(from, start); err != nil {
			return err
		}
	}
	if f.opts.MaxPerFile > 0 && f.matches == int64(f.opts.MaxPerFile) {
		if f.after > 0 {
			return f.giveInContext(start, end)
		}
		f.out.aside.shortened++
		return cmp.Or(f.finish(), errStop)
	}
	f.matches++
	if f.opts.Report == GrepLines {
		return f.give(from, start, end)
	}
	return nil
}

// finish reports the result of a whole file at its end.
func (f *grepFile) finish() error {
	if f.opts.Report == GrepLines || f.matches == 0 {
		return nil
	}
	r := GrepResult{Kind: GrepFile, Path: f.name.String()}
	if f.opts.Report == GrepCounts {
		r.Count = f.matches
	}
	return f.out.emit(r)
}

// skip notes why a part of the file is not searched.
func (f *grepFile) skip(err error) {
	f.out.aside.skipped.Add(pathError("grep", f.name.String(), err))
}

// skipLineEnd goes over the end of a line that did not fit into the buffer.
func (f *grepFile) skipLineEnd() {
	f.skip(fmt.Errorf("line %d: %w", f.line, errGrepLine))
	f.line++
	f.offset += f.missing + 1
}
