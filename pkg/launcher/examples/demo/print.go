package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	// columns is the width of a line: it fits the smallest terminal.
	columns = 79
	// shownLines bounds the lines shown of a result, to keep the demo readable.
	shownLines = 10
	// indent comes before each line except titles.
	indent = "   "
)

// A printer prints steps: a title, the command, the result, the time.
type printer struct {
	out    io.Writer
	bold   string // begins bold text on a terminal
	normal string // ends it
	steps  int
	lines  int // of the current result
	rest   []byte
	failed error // the first error of out
}

func newPrinter(out io.Writer) *printer {
	p := &printer{out: out}
	if f, ok := out.(*os.File); ok && isTerminal(f) {
		p.bold, p.normal = "\x1b[1m", "\x1b[0m"
	}
	return p
}

// isTerminal reports whether f is a terminal, or another device where bold text does
// no harm.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *printer) printf(format string, args ...any) error {
	if p.failed == nil {
		_, p.failed = fmt.Fprintf(p.out, format, args...)
	}
	return p.failed
}

// A stepError says which step failed, and why.
type stepError struct {
	number int
	title  string
	err    error
}

func (e *stepError) Error() string { return fmt.Sprintf("step %d, %q: %v", e.number, e.title, e.err) }
func (e *stepError) Unwrap() error { return e.err }

// step prints the title, does the work of a step, and prints its time.
func (p *printer) step(title string, command []string, work func() error) error {
	p.steps++
	p.lines = 0
	if err := p.printf("\n%s%d. %s%s\n", p.bold, p.steps, title, p.normal); err != nil {
		return err
	}
	for i, line := range wrapWords(command, columns-len(indent)-4) {
		if err := p.printf("%s%s%s\n", indent, []string{"$ ", "    "}[min(i, 1)], line); err != nil {
			return err
		}
	}
	begin := time.Now()
	err := work()
	elapsed := time.Since(begin)
	p.endResult()
	if err != nil {
		return &stepError{number: p.steps, title: title, err: err}
	}
	return p.printf("%s-- %s\n", indent, took(elapsed))
}

// result prints lines of a result.
func (p *printer) result(text string) {
	_, _ = p.Write([]byte(strings.TrimSuffix(text, "\n") + "\n")) // step returns the error
}

// Write prints the first shownLines lines of the result as it comes.
func (p *printer) Write(b []byte) (int, error) {
	data := append(p.rest, b...)
	for {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			break
		}
		p.line(string(line))
		data = rest
	}
	p.rest = append([]byte(nil), data...)
	return len(b), p.failed
}

func (p *printer) line(s string) {
	if p.lines++; p.lines <= shownLines {
		_ = p.printf("%s%s\n", indent, trimLine(s, columns-len(indent))) // failed keeps the error
	}
}

// endResult ends an incomplete last line, and says how many lines were left out.
func (p *printer) endResult() {
	if len(p.rest) > 0 {
		p.line(string(p.rest))
		p.rest = nil
	}
	if more := p.lines - shownLines; more > 0 {
		_ = p.printf("%s… %d more lines\n", indent, more) // failed keeps the error
	}
}
