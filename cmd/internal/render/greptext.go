package render

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"github.com/podagent/podagent/pkg/fsops"
)

// The colors are ripgrep's.
const (
	colorPath  = "\x1b[35m"
	colorLine  = "\x1b[32m"
	colorMatch = "\x1b[1;31m"
	colorEnd   = "\x1b[0m"
)

// colored reports whether output is colored: as the flag says, or else on a
// terminal with colors, unless NO_COLOR is set (no-color.org).
func colored(out io.Writer, flag string) bool {
	switch flag {
	case "always":
		return true
	case "never":
		return false
	}
	terminal := os.Getenv("TERM")
	return bool(IsTerminal(out)) && os.Getenv("NO_COLOR") == "" && terminal != "" && terminal != "dumb"
}

// paint appends a color, if output is colored.
func (p *grepPrinter) paint(dst []byte, color string) []byte {
	if !p.Color {
		return dst
	}
	return append(dst, color...)
}

// file appends a file that matches.
func (p *grepPrinter) file(dst []byte, r fsops.GrepResult) []byte {
	dst = p.pathOf(dst, r)
	if p.Counts {
		dst = append(dst, ':')
		dst = strconv.AppendInt(dst, r.Count, 10)
	}
	return append(dst, '\n')
}

// pathOf appends the printed form of a result's path.
func (p *grepPrinter) pathOf(dst []byte, r fsops.GrepResult) []byte {
	if p.path != r.Path || p.name == "" {
		p.path, p.name = r.Path, p.terminal.Name(r.Path)
	}
	dst = p.paint(dst, colorPath)
	dst = append(dst, p.name...)
	return p.paint(dst, colorEnd)
}

// lines appends the lines of a result: one, unless the match spans several.
func (p *grepPrinter) lines(dst []byte, r fsops.GrepResult) []byte {
	dst = p.between(dst, r)
	line := grepLine{number: r.Line, offset: r.Offset, separator: ':'}
	if r.Kind == fsops.GrepContext {
		line.separator = '-'
	}
	for at := 0; ; {
		length := bytes.IndexByte(r.Text[at:], '\n')
		last := length < 0
		if last {
			length = len(r.Text) - at
			line.cut = r.Cut
		}
		line.text = r.Text[at : at+length]
		line.spans = within(r.Spans, at, at+length)
		line.shift = at
		dst = p.oneLine(dst, r, line)
		p.line = line.number
		if last {
			return dst
		}
		at += length + 1
		line.number++
		line.offset += int64(length) + 1
	}
}

// between appends the separator between a result and the previous one.
func (p *grepPrinter) between(dst []byte, r fsops.GrepResult) []byte {
	first, other := p.line == 0, p.path != r.Path
	switch {
	case p.Heading && (first || other):
		if !first {
			dst = append(dst, '\n')
		}
		dst = append(p.pathOf(dst, r), '\n')
	case p.Context && !first && (other || r.Line > p.line+1):
		dst = append(dst, "--\n"...)
	}
	return dst
}

// A grepLine is a line to print.
type grepLine struct {
	number, offset int64
	separator      byte
	text           []byte
	cut            int64
	// spans are the matches in the line, as offsets in a text in which the line
	// begins at shift.
	spans []fsops.Span
	shift int
}

// within returns the spans that touch a range, from a sorted list.
func within(spans []fsops.Span, start, end int) []fsops.Span {
	for len(spans) > 0 && spans[0].End <= start && spans[0].Start < start {
		spans = spans[1:]
	}
	for len(spans) > 0 && spans[len(spans)-1].Start > end {
		spans = spans[:len(spans)-1]
	}
	return spans
}

// oneLine appends a line with its prefix.
func (p *grepPrinter) oneLine(dst []byte, r fsops.GrepResult, l grepLine) []byte {
	if !p.Heading {
		dst = append(p.pathOf(dst, r), l.separator)
	}
	if !p.NoNumbers {
		dst = p.paint(dst, colorLine)
		dst = strconv.AppendInt(dst, l.number, 10)
		dst = append(p.paint(dst, colorEnd), l.separator)
	}
	if p.Column && len(l.spans) > 0 {
		dst = strconv.AppendInt(dst, int64(max(l.spans[0].Start-l.shift, 0))+1, 10)
		dst = append(dst, l.separator)
	}
	if p.Offset {
		dst = strconv.AppendInt(dst, l.offset, 10)
		dst = append(dst, l.separator)
	}
	return p.text(dst, l)
}

// text appends the text of a line, with its matches colored.
func (p *grepPrinter) text(dst []byte, l grepLine) []byte {
	at := 0
	for _, s := range l.spans {
		start, end := max(s.Start-l.shift, at), min(s.End-l.shift, len(l.text))
		if !p.Color || start >= end {
			continue
		}
		dst = p.terminal.appendText(dst, l.text[at:start])
		dst = p.paint(dst, colorMatch)
		dst = p.terminal.appendText(dst, l.text[start:end])
		dst = p.paint(dst, colorEnd)
		at = end
	}
	rest := l.text[at:]
	// A carriage return is harmless at the end of a line.
	end := rest[len(bytes.TrimSuffix(rest, []byte("\r"))):]
	dst = p.terminal.appendText(dst, rest[:len(rest)-len(end)])
	if l.cut > 0 {
		dst = append(dst, " [... "...)
		dst = strconv.AppendInt(dst, l.cut, 10)
		return append(dst, " more bytes]\n"...)
	}
	return append(append(dst, end...), '\n')
}
