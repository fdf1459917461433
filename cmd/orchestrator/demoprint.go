package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// demoColumns is the width of a line: that of the smallest terminal.
	demoColumns = 79
	// demoLines is how many lines of a result are shown: what keeps the whole
	// demo readable.
	demoLines = 10
	// demoIndent is before each line but titles.
	demoIndent = "   "
)

// A demoPrinter prints steps: a title, the command, the result, the time.
type demoPrinter struct {
	out    io.Writer
	bold   string // begins what is emphasized on a terminal
	normal string // ends it
	steps  int
	lines  int // of the result under way
	rest   []byte
	failed error // the first error of out
}

func newDemoPrinter(a *app) *demoPrinter {
	p := &demoPrinter{out: a.out}
	if a.terminal {
		p.bold, p.normal = "\x1b[1m", "\x1b[0m"
	}
	return p
}

func (p *demoPrinter) printf(format string, args ...any) error {
	if p.failed == nil {
		_, p.failed = fmt.Fprintf(p.out, format, args...)
	}
	return p.failed
}

// step does the work of a step, between its title and its time.
func (p *demoPrinter) step(title string, command []string, work func() error) error {
	p.steps++
	p.lines = 0
	if err := p.printf("\n%s%d. %s%s\n", p.bold, p.steps, title, p.normal); err != nil {
		return err
	}
	for i, line := range wrapWords(command, demoColumns-len(demoIndent)-4) {
		if err := p.printf("%s%s%s\n", demoIndent, []string{"$ ", "    "}[min(i, 1)], line); err != nil {
			return err
		}
	}
	begin := time.Now()
	if err := work(); err != nil {
		return err
	}
	elapsed := time.Since(begin)
	p.endResult()
	return p.printf("%s-- %s\n", demoIndent, took(elapsed))
}

// result prints lines of a result.
func (p *demoPrinter) result(text string) {
	_, _ = p.Write([]byte(strings.TrimSuffix(text, "\n") + "\n")) // step returns the error
}

// Write prints the result as it comes, up to demoLines lines of it.
func (p *demoPrinter) Write(b []byte) (int, error) {
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

func (p *demoPrinter) line(s string) {
	if p.lines++; p.lines <= demoLines {
		_ = p.printf("%s%s\n", demoIndent, trimLine(s, demoColumns-len(demoIndent))) // failed keeps the error
	}
}

// endResult ends a last line that has no end, and says what was left out.
func (p *demoPrinter) endResult() {
	if len(p.rest) > 0 {
		p.line(string(p.rest))
		p.rest = nil
	}
	if more := p.lines - demoLines; more > 0 {
		_ = p.printf("%s… %d more lines\n", demoIndent, more) // failed keeps the error
	}
}

// wrapWords returns the words of a command line as lines of so many columns,
// joined as a shell does.
func wrapWords(words []string, columns int) []string {
	lines := []string{""}
	for _, word := range words {
		word = trimLine(word, columns)
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) <= columns-2:
			*last += " " + word
		default:
			*last += " \\"
			lines = append(lines, word)
		}
	}
	return lines
}

// trimLine returns s as it fits into so many columns, without what would move
// the cursor.
func trimLine(s string, columns int) string {
	s = strings.ReplaceAll(s, "\t", "    ")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > columns {
		s = string(runes[:columns-1]) + "…"
	}
	return s
}
