package fsops

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
)

// hunks renders changes from the beginning of a content to its end. It gives the diff
// package only the lines around each change, since that package needs memory for every
// line.
type hunks struct {
	before []byte
	// line is the number of lines up to pos.
	pos, line int
	// grown is how many lines the rendered changes have added.
	grown int
}

// near returns how many changes, from the first on, are close enough to each other to
// share a hunk. Later changes never share it.
func (h *hunks) near(changes []udiff.Edit) int {
	const apart = 2*diffContext + 4 // a line more at each end, as in render
	n := 1
	for ; n < len(changes); n++ {
		between := h.before[changes[n-1].End:changes[n].Start]
		if bytes.Count(between, []byte("\n")) > apart {
			break
		}
	}
	return n
}

// render returns the hunks of changes that are near each other.
func (h *hunks) render(changes []udiff.Edit) []byte {
	start := linesBefore(h.before, changes[0].Start, diffContext+1)
	end := linesAfter(h.before, changes[len(changes)-1].End, diffContext+1)
	h.line += bytes.Count(h.before[h.pos:start], []byte("\n"))
	h.pos = start
	moved := make([]udiff.Edit, len(changes))
	for i, c := range changes {
		moved[i] = udiff.Edit{Start: c.Start - start, End: c.End - start, New: c.New}
	}
	text, err := udiff.ToUnified("", "", string(h.before[start:end]), moved, diffContext)
	if err != nil {
		return nil // the changes do not overlap, so it has no reason to fail
	}
	return h.renumber(strings.TrimPrefix(text, "--- \n+++ \n"))
}

// renumber returns the hunks with the line numbers of the whole file. Only the
// headers of hunks begin with an at sign.
func (h *hunks) renumber(text string) []byte {
	out := make([]byte, 0, len(text)+len(text)/16)
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "@@ ") && len(fields) == 4 {
			line = h.header(fields[1][1:], fields[2][1:])
		}
		out = append(out, line...)
	}
	return out
}

// header returns the header of a hunk with these ranges of lines, such as "5,7". It
// computes the beginning of the new range from the hunks before: the diff package does
// not count the lines between changes that share a hunk.
func (h *hunks) header(from, to string) string {
	first, fromLines := lineRange(from)
	_, toLines := lineRange(to)
	if first > 0 { // "0,0" is the range of an empty file
		first += h.line
		_, count, several := strings.Cut(from, ",")
		from = strconv.Itoa(first)
		if several {
			from += "," + count
		}
	}
	if toLines > 0 {
		to = strconv.Itoa(max(1, first+h.grown))
		if toLines > 1 {
			to += "," + strconv.Itoa(toLines)
		}
	}
	h.grown += toLines - fromLines
	return fmt.Sprintf("@@ -%s +%s @@\n", from, to)
}

// lineRange returns the first line of a range and the number of lines.
func lineRange(text string) (first, count int) {
	number, lines, several := strings.Cut(text, ",")
	first, _ = strconv.Atoi(number)
	if !several {
		return first, 1
	}
	count, _ = strconv.Atoi(lines)
	return first, count
}

// linesBefore returns the beginning of the line n lines before the one at pos.
func linesBefore(text []byte, pos, n int) int {
	for range n + 1 {
		i := bytes.LastIndexByte(text[:pos], '\n')
		if i < 0 {
			return 0
		}
		pos = i
	}
	return pos + 1
}

// linesAfter returns the end of the line n lines after the one at pos.
func linesAfter(text []byte, pos, n int) int {
	for range n + 1 {
		i := bytes.IndexByte(text[pos:], '\n')
		if i < 0 {
			return len(text)
		}
		pos += i + 1
	}
	return pos
}
