package secret

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	// leadSize is how many bytes of a text are looked at to see whether a secret may
	// begin there. No form is shorter (MinValue).
	leadSize = 4
	// filterBits is the size of the filter for each lead: by chance, one place in 64 of a
	// text passes it.
	filterBits = 64
	// multiplier is that of Knuth's hash (The Art of Computer Programming, 6.4).
	multiplier = 2654435769
)

// table has the patterns to replace. An automaton for all of them (Aho-Corasick) would
// need a state for each byte of each spelling, hundreds of bytes for each of a value.
// Here a pattern takes no more than its text, and a look at four bytes passes over
// nearly all places where none begins.
type table struct {
	patterns []pattern // the longest text first
	// leads are the beginnings of the spellings of all patterns, by their first leadSize
	// bytes.
	leads map[uint32]*leads
	// filter has a bit for the hash of each key of leads.
	filter []uint64
	shift  int // of the hash
	// begins has the first bytes of leads, fewer than leadSize, each with the index of a
	// pattern.
	begins map[string]int
}

// leads have their first leadSize bytes in common. The next two bytes tell apart the
// many of a text such as \u00e9.
type leads struct {
	short []lead            // of less than two bytes more
	long  map[uint16][]lead // by these
}

// lead is a beginning of some patterns, given by their indexes.
type lead struct {
	text     string
	patterns []int
}

func newTable(sets []*Set) *table {
	t := &table{leads: map[uint32]*leads{}, begins: map[string]int{}}
	spelled := map[*dialect]*spellings{}
	seen := map[form]bool{}
	for _, s := range sets {
		for _, e := range s.all() {
			for _, f := range forms(e.value) {
				if seen[f] {
					continue
				}
				seen[f] = true
				if spelled[f.in] == nil {
					spelled[f.in] = &spellings{more: map[string][]string{}}
				}
				spelled[f.in].learn(f)
				t.patterns = append(t.patterns, pattern{f, Marker(e.name), spelled[f.in]})
			}
		}
	}
	slices.SortStableFunc(t.patterns, func(a, b pattern) int { return cmp.Compare(len(b.text), len(a.text)) })
	for i := range t.patterns {
		t.patterns[i].leads("", 0, func(text string) { t.addLead(text, i) })
	}
	t.makeFilter()
	return t
}

func (t *table) addLead(text string, pattern int) {
	key := keyOf([]byte(text))
	if t.leads[key] == nil {
		t.leads[key] = &leads{}
	}
	t.leads[key].add(text, pattern)
	for n := 1; n < leadSize; n++ {
		if _, ok := t.begins[text[:n]]; !ok {
			t.begins[text[:n]] = pattern
		}
	}
}

func (l *leads) add(text string, pattern int) {
	rest := []byte(text[leadSize:])
	if len(rest) < 2 {
		l.short = addTo(l.short, text, pattern)
		return
	}
	if l.long == nil {
		l.long = map[uint16][]lead{}
	}
	key := binary.LittleEndian.Uint16(rest)
	l.long[key] = addTo(l.long[key], text, pattern)
}

func addTo(list []lead, text string, pattern int) []lead {
	at := slices.IndexFunc(list, func(l lead) bool { return l.text == text })
	if at < 0 {
		return append(list, lead{text, []int{pattern}})
	}
	list[at].patterns = append(list[at].patterns, pattern)
	return list
}

func (t *table) makeFilter() {
	size := min(max(bits.Len(uint(filterBits*len(t.leads))), 12), 28)
	t.filter, t.shift = make([]uint64, 1<<size/64), 32-size
	for key := range t.leads {
		hash := key * multiplier >> (t.shift & 31)
		t.filter[hash/64] |= 1 << (hash % 64)
	}
}

func keyOf(text []byte) uint32 { return binary.LittleEndian.Uint32(text) }

// plain returns the number of bytes before the first place in text where a pattern
// may begin.
func (t *table) plain(text []byte) int {
	i := 0
	for {
		i += t.skip(text[i:])
		if len(text)-i < leadSize {
			break
		}
		if t.leads[keyOf(text[i:])] != nil {
			return i
		}
		i++
	}
	for ; i < len(text); i++ {
		if _, ok := t.begins[string(text[i:])]; ok {
			return i
		}
	}
	return len(text)
}

// skip returns the number of bytes before the first place that the filter lets pass, or
// before the last ones, of which leadSize would not be left.
func (t *table) skip(text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 5 { // there are five places in eight bytes
		word := binary.LittleEndian.Uint64(text[i:])
		if (t.bit(uint32(word))|t.bit(uint32(word>>8))|t.bit(uint32(word>>16))|
			t.bit(uint32(word>>24))|t.bit(uint32(word>>32)))&1 != 0 {
			break
		}
	}
	for ; i+leadSize <= len(text); i++ {
		if t.bit(keyOf(text[i:]))&1 != 0 {
			break
		}
	}
	return i
}

// bit returns that of a key in the filter, as the lowest one.
func (t *table) bit(key uint32) uint64 {
	hash := key * multiplier >> (t.shift & 31)
	return t.filter[hash/64] >> (hash % 64)
}

// A match is a beginning of a text that spells a pattern, or a part of one. There is
// none if its size is 0.
type match struct {
	size    int
	pattern int // its index
}

// over reports whether m is to be preferred to another match: it is longer, or else the
// text of its pattern is.
func (m match) over(other match) bool {
	return m.size > other.size || m.size == other.size && m.pattern < other.pattern
}

// at returns the longest pattern at the beginning of text, and one of which all of text
// is a beginning.
func (t *table) at(text []byte) (found, begun match) {
	if len(text) < leadSize {
		if i, ok := t.begins[string(text)]; ok {
			begun = match{len(text), i}
		}
		return found, begun
	}
	try := func(list []lead) {
		for _, l := range list {
			if n := min(len(text), len(l.text)); string(text[:n]) == l.text[:n] {
				found, begun = t.match(text, l.patterns, found, begun)
			}
		}
	}
	l := t.leads[keyOf(text)]
	switch {
	case l == nil:
	case len(text) >= leadSize+2:
		try(l.short)
		try(l.long[binary.LittleEndian.Uint16(text[leadSize:])])
	default:
		try(l.short)
		for _, list := range l.long {
			try(list)
		}
	}
	return found, begun
}

// match returns the matches that are to be preferred to those given, among these patterns.
func (t *table) match(text []byte, patterns []int, found, begun match) (match, match) {
	for _, i := range patterns {
		size, end := t.patterns[i].rest(text, "", 0)
		m := match{size, i}
		if (end == whole || end == open) && m.over(found) {
			found = m
		}
		if (end == cut || end == open) && (t.isPart(m) && !t.isPart(begun) || m.over(begun) && t.isPart(m) == t.isPart(begun)) {
			begun = m
		}
	}
	return found, begun
}

// isPart reports whether a match that ends with the text shows so much of a secret that
// it is replaced.
func (t *table) isPart(m match) bool {
	return m.size > 0 && m.size >= t.patterns[m.pattern].in.least
}

// tail returns the longest end of a pattern at the beginning of text, or the part of it
// that text has. It is not sure if more text may show a different one.
func (t *table) tail(text []byte) (tail match, sure bool) {
	if len(text) == 0 {
		return tail, false
	}
	sure = true
	for i := range t.patterns {
		t.patterns[i].ends(text, func(size int, end ending) bool {
			sure = sure && end == whole
			if m := (match{size, i}); size >= t.patterns[i].in.least && m.over(tail) {
				tail = m
			}
			return sure || tail.size < len(text) // there is nothing longer
		})
	}
	return tail, sure
}
