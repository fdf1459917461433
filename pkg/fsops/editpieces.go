package fsops

import (
	"bytes"

	udiff "github.com/aymanbagabas/go-udiff"
)

// pieces is an edited content as a list of parts of the original and replacements. To
// stay small after many edits, it may describe only the beginning of the content.
type pieces struct {
	list []piece
	// size is the size of the original.
	size int
	// limit bounds the replacements that each edit adds.
	limit int
	// partial says that the list ends before the content does.
	partial bool
}

// piece is a text, or, if that is empty, a range of the original that is still there.
type piece struct {
	text       string
	start, end int
}

func (p piece) len() int {
	if p.text != "" {
		return len(p.text)
	}
	return p.end - p.start
}

func (p piece) cut(n int) (head, tail piece) {
	if p.text != "" {
		return piece{text: p.text[:n]}, piece{text: p.text[n:]}
	}
	return piece{start: p.start, end: p.start + n}, piece{start: p.start + n, end: p.end}
}

func newPieces(size, limit int) *pieces {
	p := &pieces{size: size, limit: limit}
	if size > 0 {
		p.list = []piece{{end: size}}
	}
	return p
}

// edit applies e wherever it occurs in content, which the pieces describe.
func (p *pieces) edit(content []byte, e Edit) {
	rest, text := p.list, string(e.New)
	p.list = nil
	for pos, n := 0, 0; ; n++ {
		i := bytes.Index(content[pos:], e.Old)
		if i < 0 {
			break
		}
		if n == p.limit {
			rest, p.partial = nil, true
			break
		}
		var before []piece
		before, rest = split(rest, i)
		p.list = append(p.list, before...)
		if _, rest = split(rest, len(e.Old)); len(rest) == 0 && p.partial {
			return // this occurrence may reach beyond the known beginning
		}
		if text != "" {
			p.list = append(p.list, piece{text: text})
		}
		pos += i + len(e.Old)
	}
	p.list = append(p.list, rest...)
}

// split divides the list n bytes from its beginning, or at its end if the list is
// shorter. It may change the list.
func split(list []piece, n int) (head, tail []piece) {
	for i := range list {
		size := list[i].len()
		if n < size {
			if n == 0 {
				return list[:i], list[i:]
			}
			first, second := list[i].cut(n)
			list[i] = second
			return append(list[:i:i], first), list[i:]
		}
		n -= size
	}
	return list, nil
}

// changes returns the replacements in terms of the original.
func (p *pieces) changes() []udiff.Edit {
	var all []udiff.Edit
	var text []byte // of the adjacent pieces so far
	start := 0
	add := func(end int) {
		if start < end || len(text) > 0 {
			all = append(all, udiff.Edit{Start: start, End: end, New: string(text)})
		}
		text = text[:0]
	}
	for _, piece := range p.list {
		if piece.text != "" {
			text = append(text, piece.text...)
			continue
		}
		add(piece.start)
		start = piece.end
	}
	if !p.partial {
		add(p.size)
	}
	return all
}
