package secret

import "bytes"

const (
	// maxColumn bounds the text column of a dump, with what is around it: that of
	// 32 bytes a line, twice as many as the programs print unless told otherwise.
	maxColumn = 40
	// maxDumpLine bounds what follows a value in its last line of a dump: the other
	// bytes of the line, and the column.
	maxDumpLine = 4*32 + maxColumn
	// minAddress and maxAddress bound the address that begins a line: od prints 7
	// digits, xxd and hexdump 8, and gdb up to 16.
	minAddress, maxAddress = 7, 16
)

// nextLine returns the length of what is between the bytes of two lines of a dump, such
// as that of xxd, hexdump -C and od: the column of text, and the next line's address.
func nextLine(text []byte) (size int, end ending) {
	size = bytes.IndexByte(text[:min(len(text), maxColumn)], '\n') + 1
	switch {
	case size == 0 && len(text) >= maxColumn:
		return 0, differs
	case size == 0:
		return len(text), cut
	}
	digits := 0
	for size < len(text) && isHexDigit(text[size]) && digits < maxAddress {
		size, digits = size+1, digits+1
	}
	if size < len(text) && (digits < minAddress || text[size] != ' ' && text[size] != ':') {
		return 0, differs
	}
	for size < len(text) && (text[size] == ' ' || text[size] == ':') {
		size++
	}
	if size == len(text) {
		return size, cut
	}
	return size, whole
}

func isHexDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// restOfLine returns the length of what follows the bytes of a value in its last line of
// a dump, up to the end of the column, which shows them again. If the value has one line
// only, it is a dump if a blank follows. More may follow if it is open.
func restOfLine(text []byte, dump bool) (size int, end ending) {
	if len(text) > 0 && text[0] != ' ' && !dump {
		return 0, whole
	}
	if size = bytes.IndexByte(text[:min(len(text), maxDumpLine)], '\n'); size >= 0 {
		return size, whole
	}
	if len(text) < maxDumpLine {
		return len(text), open
	}
	return maxDumpLine, whole
}
