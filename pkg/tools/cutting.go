package tools

import (
	"bytes"
	"unicode/utf8"
)

// wholeLines returns text without an incomplete line at its end. A line of more
// than tearLine bytes stays, in whole runes.
func wholeLines(text []byte) []byte {
	if end := bytes.LastIndexByte(text, '\n') + 1; end > 0 && len(text)-end <= tearLine {
		return text[:end]
	}
	return wholeRunes(text)
}

// fromLine returns text without an incomplete line at its beginning. A line of
// more than tearLine bytes stays, in whole runes.
func fromLine(text []byte) []byte {
	if end := bytes.IndexByte(text, '\n') + 1; end > 0 && end <= tearLine && end < len(text) {
		return text[end:]
	}
	for i := 0; i < len(text) && i < utf8.UTFMax; i++ {
		if utf8.RuneStart(text[i]) {
			return text[i:]
		}
	}
	return text
}

// nthLine returns the index in text where the first n lines end.
func nthLine(text []byte, n int) int {
	at := 0
	for range n {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return len(text)
		}
		at += end + 1
	}
	return at
}

// lastLines returns the index in text where the last n lines begin. An incomplete
// last line counts.
func lastLines(text []byte, n int) int {
	at := len(bytes.TrimSuffix(text, []byte("\n")))
	for range n {
		end := bytes.LastIndexByte(text[:at], '\n')
		if end < 0 {
			return 0
		}
		at = end
	}
	return at + 1
}

// wholeRunes returns text without an incomplete rune at its end.
func wholeRunes(text []byte) []byte {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				return text[:i]
			}
			break
		}
	}
	return text
}
