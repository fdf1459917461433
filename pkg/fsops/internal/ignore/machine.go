package ignore

import "slices"

// A machine matches tokens with a text, in time that grows with the lengths of both alone,
// whatever they are: it keeps a set of all the tokens that may be next, and goes through the
// text once. Bits stand for the tokens, and one more for the end of all.
type machine struct {
	words int // of each set
	end   int
	// takes has for each byte the set of the tokens that match it, and are over then.
	takes []uint64
	// stars are all asterisks, of which single ones take no slash. At any but the first byte
	// after a slash, dirs must go on to the next slash.
	stars, single, dirs []uint64
}

func newMachine(tokens []token) *machine {
	// One after another says no more, and takes time.
	tokens = slices.CompactFunc(tokens, func(a, b token) bool { return a.kind == dirs && b.kind == dirs })
	words := len(tokens)/64 + 1
	sets := make([]uint64, (256+3)*words)
	m := &machine{words: words, end: len(tokens), takes: sets[:256*words]}
	sets = sets[256*words:]
	m.stars, m.single, m.dirs = sets[:words], sets[words:2*words], sets[2*words:]
	for i := range tokens {
		m.add(i, &tokens[i])
	}
	return m
}

// add puts a token into the sets that it is in.
func (m *machine) add(i int, t *token) {
	word, bit := i/64, uint64(1)<<(i%64)
	switch t.kind {
	case star:
		m.single[word] |= bit
	case dirs:
		m.dirs[word] |= bit
	case starStar:
	default:
		for b := range 256 {
			if t.matchByte(byte(b)) {
				m.takes[b*m.words+word] |= bit
			}
		}
		return
	}
	m.stars[word] |= bit
}

// match reports whether the tokens match the whole of s.
func (m *machine) match(s string) bool {
	var room [8]uint64 // for the usual, on the stack
	sets := room[:]
	if 2*m.words > len(sets) {
		sets = make([]uint64, 2*m.words)
	}
	now, next := sets[:m.words], sets[m.words:2*m.words]
	m.step(now, next, 0, 1)
	for i := range len(s) {
		if !m.step(next, now, s[i], 0) {
			return false
		}
		now, next = next, now
	}
	return now[m.end/64]>>(m.end%64)&1 == 1
}

// step finds the tokens that are next after a byte, and reports whether there are any. first
// is 1 if the first token is among them.
func (m *machine) step(next, now []uint64, b byte, first uint64) bool {
	takes := m.takes[int(b)*m.words:][:m.words]
	begun, any := first, uint64(0)
	for i := range takes {
		took := now[i] & takes[i]
		stay, over := now[i]&m.stars[i], m.dirs[i]
		if b == '/' {
			stay, over = stay&^m.single[i], 0
		}
		set := took<<1 | begun
		begun = took >> 63
		// An asterisk may be over as soon as it has begun, and after each byte.
		for on := set&m.stars[i] | stay&^over; on != 0; on &= m.stars[i] {
			begun |= on >> 63
			on <<= 1
			set |= on
		}
		next[i] = set | stay
		any |= next[i]
	}
	return any != 0
}

// matchByte reports whether a token that is no asterisk matches a byte.
func (t *token) matchByte(b byte) bool {
	switch t.kind {
	case literalByte:
		return b == t.b
	case class:
		return b != '/' && t.set.contains(b)
	}
	return b != '/'
}
