package linere

// runTwo goes to the ends of two parts of a text that follow one another. If
// the match is in the second one, it sets a to its place.
func (d *dfa) runTwo(text []byte, a, b *cursor) outcome {
	flushes := d.flushes
	for {
		nextA, nextB := d.inTurns(text, a, b)
		switch {
		case a.at == a.end:
			d.goOn(a, b)
			return d.run(text, a)
		case b.at == b.end:
			return d.either(text, a, b, d.finish(text, b))
		case nextA < firstRow:
			if out := d.special(text, a, nextA); out != none {
				return out
			}
		default:
			switch out := d.special(text, b, nextB); out {
			case found:
				return d.either(text, a, b, found)
			case gaveUp:
				return gaveUp
			}
		}
		if flushes != d.flushes {
			// The states are gone.
			a.at, a.end, a.row = lineStart(text, 0, a.at), b.end, firstRow
			return d.run(text, a)
		}
	}
}

// either goes to the end of the first part; the outcome of the second is known.
func (d *dfa) either(text []byte, a, b *cursor, second outcome) outcome {
	if out := d.run(text, a); out != none {
		return out
	}
	d.goOn(a, b)
	return second
}

// goOn sets a to the place of b.
func (d *dfa) goOn(a, b *cursor) {
	d.fed += a.at - a.mark
	*a = *b
}

// inTurns goes on in both parts until one is at its end, or has a transition that
// leads to no state.
func (d *dfa) inTurns(text []byte, a, b *cursor) (nextA, nextB uint32) {
	trans, table := d.trans, &d.prog.classes.ascii
	rowA, rowB := a.row, b.row
	n := min(a.end-a.at, b.end-b.at)
	partA, partB := text[a.at:a.at+n], text[b.at:b.at+n]
	i := 0
	for ; i < len(partA) && i < len(partB); i++ {
		nextA, nextB = trans[rowA+uint32(table[partA[i]])], trans[rowB+uint32(table[partB[i]])]
		if nextA < firstRow || nextB < firstRow {
			break
		}
		rowA, rowB = nextA, nextB
	}
	a.at, a.row = a.at+i, rowA
	b.at, b.row = b.at+i, rowB
	return nextA, nextB
}
