package fsops

import (
	"bytes"
	"context"
	"errors"
	"syscall"
	"unicode/utf8"
)

// LineOptions selects the lines that [FS.ReadLines] reads.
type LineOptions struct {
	// First is the first line, from 1; 0 means 1.
	First int64
	// Max is how many lines are read at most; 0 means no limit but MaxBytes.
	Max int64
	// MaxBytes limits the text in bytes; 0 means [DefaultLineBytes]. Only whole
	// lines are returned, with one exception: a first line that alone is over the
	// limit is cut, never inside a UTF-8 sequence.
	MaxBytes int64
}

// Lines is a window of a file's lines.
type Lines struct {
	// Text holds the lines with their terminators, as they are in the file.
	Text []byte
	// First is the number of the first line in Text, from 1.
	First int64
	// Count is how many lines Text has.
	Count int64
	// Total is how many lines the file has. It is -1 if more than 64 MiB follow the
	// window: these are not counted. A last line without a terminator counts.
	Total int64
	// Truncated says that MaxBytes ended the window before its last line.
	Truncated bool
	// CutLine says that the last line in Text is incomplete.
	CutLine bool
	// Attr describes the file when it was opened.
	Attr Attr
}

// ReadLines returns the window of the file's lines that opts selects, and how many
// lines the file has. A line ends with a line feed, which belongs to it; what
// follows the last one is a line too. It holds only the window in memory. Negative
// options are EINVAL; the other errors are those of [FS.Read].
func (f *FS) ReadLines(ctx context.Context, name string, opts LineOptions) (Lines, error) {
	path, err := f.resolve("read", name)
	if err != nil {
		return Lines{}, err
	}
	if opts.First < 0 || opts.Max < 0 || opts.MaxBytes < 0 {
		return Lines{}, pathError("read", name, syscall.EINVAL)
	}
	file, info, err := openRegular(path)
	if err != nil {
		return Lines{}, pathError("read", name, err)
	}
	defer file.Close()
	w := newLineWindow(opts)
	err = f.blocks.each(ctx, file, func(block []byte) error {
		return w.add(block)
	})
	if err != nil && !errors.Is(err, errStop) {
		return Lines{}, readError(name, err)
	}
	lines := w.finish()
	lines.Attr = attrOf(name, info)
	return lines, nil
}

// lineWindow collects a window of the lines of a content that comes in blocks.
type lineWindow struct {
	opts  LineOptions
	lines Lines
	// ended is how many lines ended so far; open says that another began.
	ended int64
	open  bool
	// lineStart is where the line that is being read begins in the text.
	lineStart int
	// full says that the window is complete: from now on lines are counted.
	full bool
	// beyond is how many bytes of the file were read after the window. uncounted says
	// that there are too many to count their lines.
	beyond    int64
	uncounted bool
}

func newLineWindow(opts LineOptions) *lineWindow {
	opts.First = max(opts.First, 1)
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultLineBytes
	}
	return &lineWindow{opts: opts, lines: Lines{First: opts.First}}
}

// add takes the next block of the content. It returns errStop when no more is
// needed.
func (w *lineWindow) add(block []byte) error {
	if len(block) == 0 {
		return nil
	}
	w.open = block[len(block)-1] != '\n'
	for len(block) > 0 && !w.full {
		end := bytes.IndexByte(block, '\n') + 1
		part := block[:end]
		if end == 0 {
			part = block
		}
		if w.ended+1 >= w.opts.First && !w.take(part) {
			break
		}
		if end > 0 {
			w.endLine()
		}
		block = block[len(part):]
	}
	w.ended += int64(bytes.Count(block, []byte{'\n'}))
	if w.beyond += int64(len(block)); w.beyond > maxLineCounting {
		w.uncounted = true
		return errStop
	}
	return nil
}

// take adds a part of a line to the text, and reports whether it had room.
func (w *lineWindow) take(part []byte) bool {
	room := w.opts.MaxBytes - int64(len(w.lines.Text))
	if int64(len(part)) <= room {
		w.lines.Text = append(w.lines.Text, part...)
		return true
	}
	w.full, w.lines.Truncated = true, true
	if w.lines.Count > 0 {
		w.lines.Text = w.lines.Text[:w.lineStart]
		return false
	}
	w.lines.Text = wholeRunes(append(w.lines.Text, part[:room]...))
	w.lines.Count, w.lines.CutLine = 1, true
	return false
}

func (w *lineWindow) endLine() {
	w.ended++
	if w.ended < w.opts.First {
		return
	}
	w.lines.Count++
	w.lineStart = len(w.lines.Text)
	w.full = w.lines.Count == w.opts.Max
}

func (w *lineWindow) finish() Lines {
	w.lines.Total = w.ended
	if w.open {
		w.lines.Total++
	}
	if w.uncounted {
		w.lines.Total = -1
	}
	if !w.full && w.lineStart < len(w.lines.Text) {
		w.lines.Count++
	}
	return w.lines
}

// wholeRunes cuts an incomplete UTF-8 sequence from the end of text.
func wholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if !utf8.FullRune(text[i:]) {
			return text[:i]
		}
		break
	}
	return text
}
