package fsops

import "bytes"

// give gives a line that matches, after the context before it. The context begins at
// from at the earliest.
func (f *grepFile) give(from, start, end int) error {
	if f.opts.Before > 0 {
		if err := f.giveBefore(from, start); err != nil {
			return err
		}
	}
	f.after = f.opts.After
	return f.giveMatch(start, end)
}

// giveInContext gives a line that matches beyond MaxPerFile, but stands in the
// context after the last match.
func (f *grepFile) giveInContext(start, end int) error {
	f.after = max(f.after-bytes.Count(f.block[start:end], []byte{'\n'})-1, 0)
	return f.giveMatch(start, end)
}

func (f *grepFile) giveMatch(start, end int) error {
	r := f.result(GrepMatch, start, end)
	if f.opts.Spans {
		r.Spans = f.spansOf(f.block[start:end], len(r.Text))
	}
	return f.out.emit(r)
}

// giveBefore gives the last lines between from and to, and those of earlier blocks if
// from is the block's beginning.
func (f *grepFile) giveBefore(from, to int) error {
	kept := f.before
	f.before = f.before[:0]
	tail := from + lastLines(f.block[from:to], f.opts.Before)
	if from == 0 && tail == 0 {
		room := max(f.opts.Before-countLines(f.block[:to]), 0)
		for _, r := range kept[max(len(kept)-room, 0):] {
			if err := f.out.emit(r); err != nil {
				return err
			}
		}
	}
	_, err := f.giveContext(tail, to, f.opts.Before)
	return err
}

// giveAfter gives the rest of the context after a match, up to the position to, and
// returns where it ends.
func (f *grepFile) giveAfter(from, to int) (int, error) {
	if f.after == 0 {
		return from, nil
	}
	return f.giveContext(from, to, f.after)
}

// giveContext gives at most n lines as context.
func (f *grepFile) giveContext(from, to, n int) (int, error) {
	for ; n > 0 && from < to; n-- {
		end := lineEnd(f.block, from)
		if err := f.out.emit(f.result(GrepContext, from, end)); err != nil {
			return from, err
		}
		from = min(end+1, len(f.block))
		f.after = max(f.after-1, 0)
	}
	return from, nil
}

// leave goes over the rest of a block, in which no line matches.
func (f *grepFile) leave(from int, more bool) error {
	from, err := f.giveAfter(from, len(f.block))
	if err != nil || !more {
		return err
	}
	if from > 0 {
		f.before = f.before[:0]
	}
	if f.opts.Before > 0 {
		f.keep(from + lastLines(f.block[from:], f.opts.Before))
	}
	return nil
}

// keep remembers the lines from from on, which may turn out to be context.
func (f *grepFile) keep(from int) {
	for from < len(f.block) {
		if len(f.before) == f.opts.Before {
			copy(f.before, f.before[1:])
			f.before = f.before[:len(f.before)-1]
		}
		end := lineEnd(f.block, from)
		f.before = append(f.before, f.result(GrepContext, from, end))
		from = min(end+1, len(f.block))
	}
}

// result makes the result for the line from start to end.
func (f *grepFile) result(kind GrepKind, start, end int) GrepResult {
	text := f.block[start:end]
	if len(text) > f.opts.MaxLine {
		text = wholeRunes(text[:f.opts.MaxLine])
	}
	return GrepResult{
		Kind: kind, Path: f.name.String(), Line: f.lineAt(start), Offset: f.offset + int64(start),
		Text: f.out.clone(text), Cut: int64(end-start-len(text)) + f.missing,
	}
}

// lineAt returns the number of the line that begins at a position, which is
// not before that of an earlier call.
func (f *grepFile) lineAt(pos int) int64 {
	f.line += int64(bytes.Count(f.block[f.counted:pos], []byte{'\n'}))
	f.counted = pos
	return f.line
}

// spansOf returns the matches in a line that begin in its first n bytes, which the
// result gives.
func (f *grepFile) spansOf(line []byte, n int) []Span {
	f.spans = f.searcher.Spans(f.spans[:0], line, n+1)
	spans := make([]Span, 0, len(f.spans))
	for _, s := range f.spans {
		if s.Start < n || s.Start == len(line) {
			spans = append(spans, Span{Start: s.Start, End: min(s.End, n)})
		}
	}
	return spans
}

func lineEnd(block []byte, at int) int {
	if n := bytes.IndexByte(block[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(block)
}

// countLines counts lines, the last of which may lack its newline.
func countLines(block []byte) int {
	n := bytes.Count(block, []byte{'\n'})
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
