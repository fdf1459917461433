package linere

import (
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// The classes of a program are sets of characters: it treats all characters of a
// set alike. They are the alphabet of its automaton. Bytes of ASCII are looked up
// in a table. All other bytes have the class wide there: they begin a character
// that is decoded first, so that each byte of invalid UTF-8 means what it means to
// Go.
type classes struct {
	ascii [256]uint8
	// wide is a class that no character has.
	wide uint8
	// n is the number of the classes.
	n int
	// chars has a character of each class.
	chars []rune
	// newline and cr are the classes of \n and \r; cr is -1 if \r is a character
	// like others.
	newline, cr int
	// from are the first characters of the ranges beyond ASCII, and of their
	// classes.
	from []rune
	of   []int
}

// An edge is a character at which sets begin or end.
type edge struct {
	at  rune
	sig uint64
}

// newClasses finds the classes for the sets of characters that insts name. Each set
// has a random number, and a character has the sum of the numbers of its sets.
// Characters of the same sum are of one class; that is wrong once in 2^64 pairs.
func newClasses(insts []syntax.Inst, words, cr bool) *classes {
	c := &classes{cr: -1}
	var edges []edge
	add := func(pairs ...rune) {
		sig := rand.Uint64()
		for i := 0; i < len(pairs); i += 2 {
			edges = append(edges, edge{pairs[i], sig}, edge{pairs[i+1] + 1, -sig})
		}
	}
	add(0, unicode.MaxRune)
	add('\n', '\n')
	add(utf8.RuneSelf, unicode.MaxRune)
	if cr {
		add('\r', '\r')
	}
	if words {
		add('0', '9', 'A', 'Z', '_', '_', 'a', 'z')
	}
	for _, set := range distinctSets(insts) {
		add(set...)
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	c.number(edges)
	c.newline = int(c.ascii['\n'])
	if cr {
		c.cr = int(c.ascii['\r'])
	}
	return c
}

// number gives the classes their numbers, those of ASCII first.
func (c *classes) number(edges []edge) {
	numbers := make(map[uint64]int)
	var sig uint64
	for i := 0; i < len(edges); {
		at := edges[i].at
		for ; i < len(edges) && edges[i].at == at; i++ {
			sig += edges[i].sig
		}
		if i == len(edges) {
			return // beyond the last character
		}
		if at == utf8.RuneSelf {
			c.wide = uint8(c.n)
			c.n++
			c.chars = append(c.chars, -1)
			for b := utf8.RuneSelf; b < len(c.ascii); b++ {
				c.ascii[b] = c.wide
			}
		}
		class, ok := numbers[sig]
		if !ok {
			class = c.n
			numbers[sig] = class
			c.chars = append(c.chars, at)
			c.n++
		}
		if at >= utf8.RuneSelf {
			c.from, c.of = append(c.from, at), append(c.of, class)
			continue
		}
		for b := at; b < edges[i].at; b++ {
			c.ascii[b] = uint8(class)
		}
	}
}

// distinctSets returns the sets that insts name.
func distinctSets(insts []syntax.Inst) map[string][]rune {
	sets := make(map[string][]rune)
	var key []byte
	for i := range insts {
		set := pairs(&insts[i])
		key = key[:0]
		for _, r := range set {
			key = binary.LittleEndian.AppendUint32(key, uint32(r))
		}
		if _, ok := sets[string(key)]; !ok {
			sets[string(key)] = set
		}
	}
	return sets
}

// pairs returns the ranges of characters that an instruction matches.
func pairs(inst *syntax.Inst) []rune {
	if len(inst.Rune) != 1 {
		return inst.Rune
	}
	r := inst.Rune[0]
	set := []rune{r, r}
	if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			set = append(set, f, f)
		}
	}
	return set
}

// decode returns the class of the character that text begins with, and its
// length.
func (c *classes) decode(text []byte) (class, size int) {
	r, size := utf8.DecodeRune(text)
	if len(c.of) == 1 {
		return c.of[0], size
	}
	i, found := slices.BinarySearch(c.from, r)
	if !found {
		i--
	}
	return c.of[i], size
}
