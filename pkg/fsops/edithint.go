package fsops

import (
	"bytes"
	"fmt"
)

// editError describes an edit whose old text occurs count times in content: not at
// all, or too often.
func editError(content []byte, index int, e Edit, count int) *EditError {
	err := &EditError{Index: index, Count: count}
	if count == 0 {
		err.Hint = nearMiss(content, e.Old)
	}
	return err
}

// nearMiss says where content, which does not contain old, has something similar. It
// is empty if there is nothing similar.
func nearMiss(content, old []byte) string {
	if crlf := bytes.ReplaceAll(old, []byte("\n"), []byte("\r\n")); bytes.Contains(content, crlf) {
		return "the file's lines end in CRLF"
	}
	if bare := withoutSpace(old); len(bare) > 0 {
		if at := bytes.Index(withoutSpace(content), bare); at >= 0 {
			return fmt.Sprintf("only white space differs from line %d", lineOfNonSpace(content, at))
		}
	}
	first, _, more := bytes.Cut(bytes.TrimSpace(old), []byte("\n"))
	first = bytes.TrimSpace(first)
	if at := bytes.Index(content, first); more && at >= 0 {
		line := 1 + bytes.Count(content[:at], []byte("\n"))
		return fmt.Sprintf("its first line is found on line %d, but not what follows it", line)
	}
	return ""
}

// withoutSpace returns text without its white space.
func withoutSpace(text []byte) []byte {
	bare := make([]byte, 0, len(text))
	for _, b := range text {
		if !isSpace(b) {
			bare = append(bare, b)
		}
	}
	return bare
}

// lineOfNonSpace returns the number of the line with the n-th byte of text, from 0,
// that is not white space.
func lineOfNonSpace(text []byte, n int) int {
	line := 1
	for _, b := range text {
		switch {
		case b == '\n':
			line++
		case isSpace(b):
		case n == 0:
			return line
		default:
			n--
		}
	}
	return line
}

// isSpace knows ASCII only: editors and language models do not add other white space
// by accident.
func isSpace(b byte) bool {
	return b == ' ' || '\t' <= b && b <= '\r'
}
