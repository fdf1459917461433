package linere

import "bytes"

// An outcome is how a search ended.
type outcome int

const (
	none   outcome = iota // no line matches
	found                 // a line matches
	gaveUp                // the automaton is not worth its cost
)

// A cursor is where the automaton is in a text.
type cursor struct {
	at, end int
	row     uint32
	// Up to mark the bytes are counted in dfa.fed.
	mark int
}

// search searches the lines from at on. It returns a place, which may be a newline.
// The line with that place is the first that matches, or the one where it gave up.
//
// A step of the automaton waits until the table gives the state before it. If matches
// are far apart, search goes through two parts of the text in turns, which takes little
// longer than one. That is possible since lines do not depend on each other.
func (d *dfa) search(text []byte, at int) (int, outcome) {
	c := cursor{at: at, end: min(at+minBlock, len(text)), row: firstRow, mark: at}
	out := d.run(text, &c)
	if out == none {
		c.end = nextLine(text, c.end)
		out = d.run(text, &c)
	}
	for size := 2 * minBlock; out == none && c.at < len(text); size = min(2*size, maxBlock) {
		middle, end := nextLine(text, c.at+size/2), nextLine(text, c.at+size)
		c = cursor{at: c.at, end: middle, row: firstRow, mark: c.at}
		if middle == end {
			out = d.run(text, &c)
			continue
		}
		out = d.runTwo(text, &c, &cursor{at: middle, end: end, row: firstRow, mark: middle})
	}
	return c.at, out
}

// nextLine returns where the first line at or after a place begins.
func nextLine(text []byte, at int) int {
	if at >= len(text) || at == 0 || text[at-1] == '\n' {
		return min(at, len(text))
	}
	return min(lineEnd(text, at)+1, len(text))
}

// run goes to the end.
func (d *dfa) run(text []byte, c *cursor) outcome {
	table := &d.prog.classes.ascii
	for c.at < c.end {
		trans, row, part := d.trans, c.row, text[c.at:c.end]
		i, next := 0, uint32(0)
		for ; i < len(part); i++ {
			next = trans[row+uint32(table[part[i]])]
			if next < firstRow {
				break
			}
			row = next
		}
		c.at, c.row = c.at+i, row
		if i == len(part) {
			break
		}
		if out := d.special(text, c, next); out != none {
			return out
		}
	}
	return d.finish(text, c)
}

// special makes the transition next if that leads to no state, or is not known yet.
// It may go beyond the end, but not beyond the line.
func (d *dfa) special(text []byte, c *cursor, next uint32) outcome {
	class, size := int(d.prog.classes.ascii[text[c.at]]), 1
	if next == wide {
		class, size = d.prog.classes.decode(text[c.at:])
		next = d.trans[int(c.row)+class]
	}
	if next == unknown {
		d.fed += c.at - c.mark
		c.mark = c.at
		var ok bool
		if next, ok = d.next(c.row, class); !ok {
			return gaveUp
		}
	}
	switch next {
	case matched:
		return found
	case dead:
		skip := bytes.IndexByte(text[c.at:], '\n')
		if skip < 0 {
			c.at, c.row = len(text), dead
			return none
		}
		c.row, size = firstRow, skip+1
	default:
		c.row = next
	}
	c.at += size
	return none
}

// finish ends the last line, if it has no newline.
func (d *dfa) finish(text []byte, c *cursor) outcome {
	d.fed += c.at - c.mark
	c.mark = c.at
	if c.row == dead || c.at < len(text) || text[c.at-1] == '\n' {
		return none
	}
	next := d.trans[int(c.row)+d.prog.classes.newline]
	if next == unknown {
		next, _ = d.next(c.row, d.prog.classes.newline)
	}
	if next == matched {
		return found
	}
	return none
}
