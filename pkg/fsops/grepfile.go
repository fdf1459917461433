package fsops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// errGrepLine says that a part of a file was not searched.
var errGrepLine = fmt.Errorf("line is longer than %d MiB: its end was not searched", maxGrepSearchLine>>20)

// A grepFile is the search of one file.
type grepFile struct {
	ctx     context.Context
	path    string
	matcher lineMatcher
	opts    *GrepOptions
	// emit takes a result, and says whether the search is to go on.
	emit func(GrepResult) bool
	// admit is as in lineBuffer.
	admit func() (done func(), err error)

	line    int64 // number of the next line
	offset  int64 // where it begins
	matches int
	after   int          // context lines still to be given
	before  []GrepResult // the latest lines that were not given
	// missing is how many bytes the block's only line lacks.
	missing int64
}

// errGrepBinary says that a file was not searched, and why.
var errGrepBinary = errors.New("file is binary")

// run searches what r gives. It returns errGrepBinary for a file that it left
// out, and errStop where it did not go on to the end.
func (g *grepFile) run(r io.Reader, lines *lineBuffer) error {
	g.line = 1
	lines.reset(r, g.admit)
	defer lines.release()
	for {
		if err := g.ctx.Err(); err != nil {
			return err
		}
		block, err := lines.next()
		if lines.binary {
			g.emit(GrepResult{Kind: GrepBinary, Path: g.path})
			return errGrepBinary
		}
		text, binary := textOf(block)
		g.missing = lines.skipped
		if !g.block(text) {
			return errStop
		}
		if binary {
			g.emit(GrepResult{Kind: GrepBinary, Path: g.path})
			return nil
		}
		if lines.skipped > 0 && !g.longLine() {
			return errStop
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// textOf returns the lines before the one with the first NUL.
func textOf(block []byte) (text []byte, binary bool) {
	nul := bytes.IndexByte(block, 0)
	if nul < 0 {
		return block, false
	}
	return block[:bytes.LastIndexByte(block[:nul], '\n')+1], true
}

// longLine reports the end of a line that did not fit into the buffer.
func (g *grepFile) longLine() bool {
	g.offset += g.missing + 1
	err := pathError("grep", g.path, fmt.Errorf("line %d: %w", g.line-1, errGrepLine))
	return g.emit(GrepResult{Kind: GrepFileError, Path: g.path, Line: g.line - 1, Err: err})
}

// block searches whole lines, and reports whether to go on.
func (g *grepFile) block(block []byte) bool {
	pos := 0
	for start, end := range g.matcher.Lines(block) {
		if !g.pass(block[pos:start]) || !g.match(block[start:end]) {
			return false
		}
		pos = min(end+1, len(block))
		g.offset += int64(pos - start)
	}
	return g.pass(block[pos:])
}

// match gives a line that matches, with the context before it.
func (g *grepFile) match(line []byte) bool {
	if g.opts.MaxPerFile > 0 && g.matches == g.opts.MaxPerFile {
		g.emit(GrepResult{Kind: GrepFileTruncated, Path: g.path})
		return false
	}
	for _, r := range g.before {
		if !g.emit(r) {
			return false
		}
	}
	g.before = g.before[:0]
	r := g.result(GrepMatch, line)
	for _, span := range g.matcher.Spans(line, maxGrepLine+1) {
		if span.Start < len(r.Text) || span.Start == len(line) {
			r.Spans = append(r.Spans, Span{Start: span.Start, End: min(span.End, len(r.Text))})
		}
	}
	g.matches++
	g.line++
	g.after = g.opts.After
	return g.emit(r)
}

// pass goes over lines that do not match, and keeps or gives those that are
// context.
func (g *grepFile) pass(block []byte) bool {
	for g.after > 0 && len(block) > 0 {
		end := lineEnd(block, 0)
		if !g.emit(g.result(GrepContext, block[:end])) {
			return false
		}
		g.after--
		next := min(end+1, len(block))
		g.advance(block[:next], 1)
		block = block[next:]
	}
	if g.opts.Before == 0 {
		g.advance(block, countLines(block))
		return true
	}
	tail := lastLines(block, g.opts.Before)
	g.advance(block[:tail], countLines(block[:tail]))
	for block = block[tail:]; len(block) > 0; {
		end := lineEnd(block, 0)
		g.keep(g.result(GrepContext, block[:end]))
		next := min(end+1, len(block))
		g.advance(block[:next], 1)
		block = block[next:]
	}
	return true
}

func (g *grepFile) advance(block []byte, lines int) {
	g.offset += int64(len(block))
	g.line += int64(lines)
}

// keep remembers a line that may turn out to be context.
func (g *grepFile) keep(r GrepResult) {
	if len(g.before) == g.opts.Before {
		copy(g.before, g.before[1:])
		g.before = g.before[:len(g.before)-1]
	}
	g.before = append(g.before, r)
}

// result makes the result for the present line.
func (g *grepFile) result(kind GrepKind, line []byte) GrepResult {
	text := line[:min(len(line), maxGrepLine)]
	if len(text) < len(line) {
		text = wholeRunes(text)
	}
	return GrepResult{
		Kind: kind, Path: g.path, Line: g.line, Offset: g.offset,
		Text: bytes.Clone(text), Cut: int64(len(line)-len(text)) + g.missing,
	}
}

// countLines counts lines, the last of which may lack its newline.
func countLines(block []byte) int {
	n := bytes.Count(block, []byte("\n"))
	if len(block) > 0 && block[len(block)-1] != '\n' {
		n++
	}
	return n
}

// lastLines returns where the last n lines of block begin.
func lastLines(block []byte, n int) int {
	at := len(block)
	for ; n > 0 && at > 0; n-- {
		at = bytes.LastIndexByte(block[:at-1], '\n') + 1
	}
	return at
}
