package linere

import (
	"regexp/syntax"
	"unicode"
)

// Assertions beside those of regexp/syntax.
const (
	noWordBefore = syntax.EmptyNoWordBoundary << 1
	noWordAfter  = syntax.EmptyNoWordBoundary << 2
)

// A program is a nondeterministic automaton that matches a line.
type program struct {
	insts []syntax.Inst
	start uint32
	// startLooks says that the start has assertions.
	startLooks bool
	// anchored says that a match begins at the beginning of a line only.
	anchored bool
	classes  *classes
}

// compileProgram compiles an expression that is within lines. With word it finds only
// matches with no word character beside them.
func compileProgram(tree *syntax.Regexp, word, keepCR bool) (*program, error) {
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	p := &program{insts: prog.Inst, start: uint32(prog.Start)}
	if word {
		p.wrapWord()
	}
	const words = syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary | noWordBefore | noWordAfter
	asksWords := false
	for i := range p.insts {
		asksWords = asksWords || p.insts[i].Op == syntax.InstEmptyWidth && syntax.EmptyOp(p.insts[i].Arg)&words != 0
	}
	p.classes = newClasses(p.insts, asksWords, !keepCR)
	inside := closure{prog: p}
	inside.reset()
	inside.known = ^syntax.EmptyBeginLine
	inside.add(p.start)
	p.anchored = len(inside.set.dense) == 0 && !inside.matched
	inside.reset()
	inside.known, inside.open = 0, ^syntax.EmptyOp(0)
	inside.add(p.start)
	p.startLooks = inside.pending
	return p, nil
}

// wrapWord puts the assertions of a word around the program.
func (p *program) wrapWord() {
	end := uint32(len(p.insts))
	for i := range p.insts {
		if p.insts[i].Op == syntax.InstMatch {
			p.insts[i] = syntax.Inst{Op: syntax.InstEmptyWidth, Arg: uint32(noWordAfter), Out: end}
		}
	}
	p.insts = append(p.insts, syntax.Inst{Op: syntax.InstMatch},
		syntax.Inst{Op: syntax.InstEmptyWidth, Arg: uint32(noWordBefore), Out: p.start})
	p.start = end + 1
}

// A closure is a set of instructions that are reached without a character between
// them.
type closure struct {
	prog *program
	set  sparse
	// known are the assertions that hold. open are those that are not decided yet;
	// they stay in the set. All others fail.
	known, open syntax.EmptyOp
	// before are the flags of the character before the closure.
	before byte
	// matched says that a match was reached.
	matched bool
	// pending says that the set has assertions.
	pending bool
	stack   []uint32
}

func (c *closure) reset() {
	c.set.reset(len(c.prog.insts))
	c.matched, c.pending = false, false
}

// add adds an instruction, and those that it leads to.
func (c *closure) add(id uint32) {
	c.stack = append(c.stack[:0], id)
	for len(c.stack) > 0 {
		id := c.stack[len(c.stack)-1]
		c.stack = c.stack[:len(c.stack)-1]
		if !c.set.add(id) {
			continue
		}
		inst := &c.prog.insts[id]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			c.stack = append(c.stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			c.stack = append(c.stack, inst.Out)
		case syntax.InstEmptyWidth:
			switch op := syntax.EmptyOp(inst.Arg); {
			case op&^c.known == 0:
				c.stack = append(c.stack, inst.Out)
			case op&^(c.known|c.open) == 0:
				c.set.keep(id)
				c.pending = true
			}
		case syntax.InstMatch:
			c.matched = true
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			c.set.keep(id)
		}
	}
}

// A sparse is a set of small numbers that can be emptied at no cost (Briggs and Torczon,
// 1993). dense keeps some of the added numbers.
type sparse struct {
	seen  []uint32 // generation in which the number was added
	gen   uint32
	dense []uint32
}

func (s *sparse) reset(n int) {
	s.dense = s.dense[:0]
	s.gen++
	if len(s.seen) < n || s.gen == 0 {
		s.seen, s.gen = make([]uint32, n), 1
	}
}

func (s *sparse) add(id uint32) bool {
	if s.seen[id] == s.gen {
		return false
	}
	s.seen[id] = s.gen
	return true
}

func (s *sparse) keep(id uint32) { s.dense = append(s.dense, id) }

// isWord reports whether a character is one of words (\w).
func isWord(r rune) bool {
	return r <= unicode.MaxASCII && ('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_')
}
