package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// wrapWords wraps the words of a command line into lines of this many columns,
// which a shell would join again.
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

// trimLine cuts s to this many columns, and removes characters that would move the
// cursor.
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

// quote returns s as a word for a shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"'`$\\|&;<>()*?[]#~!{}", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// bytesText returns a size with its unit.
func bytesText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// took formats a time, with at most one decimal.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
