package linere

import (
	"context"
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// A transition of the automaton is the offset of the next state's row in the
// table, or one of these.
const (
	unknown  = iota // not computed yet
	matched         // the line matches
	wide            // the byte begins a character beyond ASCII
	dead            // the rest of the line cannot match
	firstRow        // offset of the first row, that of the start
)

// The flags of a state, which are the first byte of its key.
const (
	atStart   = 1 << iota // no character of the line came yet
	afterWord             // the last character is one of words
	afterCR               // after a carriage return, which may be no part of the line

	// startFlags is how many combinations a start has of the first two.
	startFlags = 1 << 2
)

// A dfa is a deterministic automaton whose states are sets of instructions. Only
// the states that texts lead to are built (Thompson 1968; Cox, "Regular Expression
// Matching in the Wild", 2010). It holds maxCache bytes at most.
type dfa struct {
	ctx  context.Context
	prog *program
	// trans are the rows of the states, with a column for each class.
	trans []uint32
	// keys tell what the states are, in the order of their rows: flags, and
	// the instructions with four bytes each.
	keys []string
	rows map[string]uint32
	// size is an estimate of the memory that all of this takes.
	size int
	// always says that each line matches.
	always bool
	// fed are the bytes that were searched since the cache was last emptied.
	fed int
	// flushes is how often the cache was emptied.
	flushes int

	// starts are where the start of the program leads to, by flags and class.
	starts []*start

	from, to closure // used in next
	ids      []uint32
	key      []byte
}

// A start is where the start of the program leads to over a character: to a
// match, or to instructions.
type start struct {
	matched, pending bool
	ids              []uint32
}

func newDFA(ctx context.Context, p *program) *dfa {
	d := &dfa{ctx: ctx, prog: p, rows: make(map[string]uint32), from: closure{prog: p}, to: closure{prog: p}}
	d.begin(&d.to, atStart)
	d.to.add(p.start)
	d.always = d.to.matched
	d.flush()
	return d
}

// flush empties the cache, except for the first state.
func (d *dfa) flush() {
	clear(d.rows)
	d.flushes++
	d.trans, d.keys, d.fed = append(d.trans[:0], make([]uint32, firstRow)...), d.keys[:0], 0
	d.starts = make([]*start, d.prog.classes.n*startFlags)
	d.size = 8 * len(d.starts)
	d.insert(string([]byte{atStart}))
}

// next computes the transition of a state for a class. It reports false if the cache
// had to be emptied although it was hardly used, since the automaton is then not worth
// its cost. It also reports false when the search has ended.
func (d *dfa) next(row uint32, class int) (target uint32, ok bool) {
	if d.ctx.Err() != nil {
		return unknown, false
	}
	flags := d.decode(d.keys[(int(row)-firstRow)/d.prog.classes.n])
	if flags&afterCR != 0 {
		flags &^= afterCR
		if class != d.prog.classes.newline {
			if d.advance(flags, d.prog.classes.cr) {
				return d.set(row, class, matched), true
			}
			flags = d.flags()
			d.ids = append(d.ids[:0], d.to.set.dense...)
		}
	}
	switch {
	case class == d.prog.classes.cr:
		return d.find(row, class, flags|afterCR, d.ids)
	case d.advance(flags, class):
		return d.set(row, class, matched), true
	case class == d.prog.classes.newline:
		return d.set(row, class, firstRow), true
	}
	return d.find(row, class, d.flags(), d.to.set.dense)
}

// set remembers a transition.
func (d *dfa) set(row uint32, class int, target uint32) uint32 {
	d.trans[int(row)+class] = target
	return target
}

// find makes a transition to the state with the instructions ids, which is
// made if it is new.
func (d *dfa) find(row uint32, class int, flags byte, ids []uint32) (uint32, bool) {
	if len(ids) == 0 && d.prog.anchored && flags&atStart == 0 {
		return d.set(row, class, dead), true
	}
	d.encode(flags, ids)
	if target, ok := d.rows[string(d.key)]; ok {
		return d.set(row, class, target), true
	}
	if d.size+d.cost(len(d.key)) <= maxCache {
		return d.set(row, class, d.insert(string(d.key))), true
	}
	used := d.fed >= minUse*len(d.keys)
	d.flush()
	return d.insert(string(d.key)), used
}

// insert makes a state.
func (d *dfa) insert(key string) uint32 {
	row := uint32(len(d.trans))
	d.trans = append(d.trans, make([]uint32, d.prog.classes.n)...)
	d.trans[int(row)+int(d.prog.classes.wide)] = wide
	d.keys = append(d.keys, key)
	d.rows[key] = row
	d.size += d.cost(len(key))
	return row
}

// cost is the memory that a state takes: its row, its key, and its entries in keys and
// in the map.
func (d *dfa) cost(key int) int { return 4*d.prog.classes.n + key + 64 }

// advance goes from d.ids, and from the start of the program, over a character of
// the class to d.to. It reports whether a match ends before or after it.
func (d *dfa) advance(flags byte, class int) bool {
	first := d.first(flags, class)
	if first.matched {
		return true
	}
	if d.leap(d.ids, flags, class) {
		return true
	}
	for _, id := range first.ids {
		if d.to.set.add(id) {
			d.to.set.keep(id)
		}
	}
	d.to.pending = d.to.pending || first.pending
	return false
}

// first returns where the start of the program leads to. All states share the start, and
// do not hold it.
func (d *dfa) first(flags byte, class int) *start {
	at := &d.starts[int(flags)*d.prog.classes.n+class]
	if *at == nil {
		s := &start{matched: d.leap([]uint32{d.prog.start}, flags, class)}
		s.ids, s.pending = slices.Clone(d.to.set.dense), d.to.pending
		*at = s
		d.size += 4*len(s.ids) + 40
	}
	return *at
}

// leap goes from the instructions ids over a character of the class to d.to.
// It reports whether a match ends before or after it.
func (d *dfa) leap(ids []uint32, flags byte, class int) bool {
	char := d.prog.classes.chars[class]
	d.from.reset()
	d.from.known = between(flags, char)
	for _, id := range ids {
		d.from.add(id)
	}
	after := byte(0)
	if isWord(char) {
		after = afterWord
	}
	d.begin(&d.to, after)
	if d.from.matched || char == '\n' {
		return d.from.matched
	}
	for _, id := range d.from.set.dense {
		if inst := &d.prog.insts[id]; inst.MatchRune(char) {
			d.to.add(inst.Out)
		}
	}
	return d.to.matched
}

// begin empties a set. The flags are those of the character before it.
func (d *dfa) begin(c *closure, flags byte) {
	c.reset()
	c.before = flags
	c.known = 0
	if flags&atStart != 0 {
		c.known |= syntax.EmptyBeginLine
	}
	if flags&afterWord == 0 {
		c.known |= noWordBefore
	}
	c.open = syntax.EmptyEndLine | syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary | noWordAfter
}

// between returns the assertions that hold before a character.
func between(flags byte, char rune) syntax.EmptyOp {
	var known syntax.EmptyOp
	before, after := flags&afterWord != 0, isWord(char)
	if flags&atStart != 0 {
		known |= syntax.EmptyBeginLine
	}
	if char == '\n' {
		known |= syntax.EmptyEndLine
	}
	if !before {
		known |= noWordBefore
	}
	if !after {
		known |= noWordAfter
	}
	if before != after {
		return known | syntax.EmptyWordBoundary
	}
	return known | syntax.EmptyNoWordBoundary
}

// flags returns the flags of the state d.to: none if they do not matter.
func (d *dfa) flags() byte {
	if !d.to.pending && !d.prog.startLooks {
		return 0
	}
	return d.to.before
}

// encode puts the key of a state into d.key.
func (d *dfa) encode(flags byte, ids []uint32) {
	slices.Sort(ids)
	d.key = append(d.key[:0], flags)
	for _, id := range ids {
		d.key = binary.LittleEndian.AppendUint32(d.key, id)
	}
}

// decode puts the instructions of a key into d.ids, and returns the flags.
func (d *dfa) decode(key string) byte {
	d.ids = d.ids[:0]
	for i := 1; i < len(key); i += 4 {
		d.ids = append(d.ids, uint32(key[i])|uint32(key[i+1])<<8|uint32(key[i+2])<<16|uint32(key[i+3])<<24)
	}
	return key[0]
}
