package linere

import (
	"math"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// A run stands in for a literal: a minimum number of bytes of a set in a row, such as
// the 40 of [0-9a-f]{40}. Then it is enough to look at every fortieth byte of a text,
// and around those that are in the set.
type run struct {
	set [utf8.RuneSelf]bool
	min int
}

// requiredRun returns a run that each match of an expression has; nil if there
// is none of use. The expression is within lines.
func requiredRun(re *syntax.Regexp) *run {
	_, best := runsOf(re)
	if best.saves() == 0 {
		return nil
	}
	return best
}

// saves returns how many bytes the search can skip at a time with a run; 0 if the run is
// not worth its cost.
func (r *run) saves() float64 {
	if r == nil || r.min < minRun {
		return 0
	}
	part := 0.0
	for b, in := range r.set {
		if in {
			part += math.Exp2(-float64(byteBits[b]) / 8)
		}
	}
	if part > maxRunPart {
		return 0
	}
	return float64(r.min) * (1 - part)
}

// runsOf returns the run that whole matches of an expression are, nil if they are none,
// and the best run within them.
func runsOf(re *syntax.Regexp) (whole, best *run) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		whole = &run{}
	case syntax.OpLiteral:
		whole = runOfLiteral(re)
	case syntax.OpCharClass:
		whole = &run{min: 1}
		whole = whole.with(re.Rune)
	case syntax.OpCapture:
		return runsOf(re.Sub[0])
	case syntax.OpPlus:
		return runsOf(re.Sub[0])
	case syntax.OpStar, syntax.OpQuest:
		whole, _ = runsOf(re.Sub[0])
		return whole.times(0), nil
	case syntax.OpRepeat:
		whole, best = runsOf(re.Sub[0])
		whole = whole.times(re.Min)
		if re.Min == 0 {
			best = nil
		}
	case syntax.OpConcat:
		return runsOfConcat(re)
	case syntax.OpAlternate:
		whole = runOfAlternate(re)
	}
	return whole, longer(best, whole)
}

// longer returns the run that saves more.
func longer(a, b *run) *run {
	if b.saves() > a.saves() {
		return b
	}
	return a
}

// times returns the run repeated n times or more.
func (r *run) times(n int) *run {
	if r == nil {
		return nil
	}
	return &run{set: r.set, min: n * r.min}
}

// joined returns a run with the bytes of both, and a length.
func (r *run) joined(other *run, length int) *run {
	out := &run{set: r.set, min: length}
	for b, in := range other.set {
		out.set[b] = out.set[b] || in
	}
	return out
}

// with adds ranges of characters, which must be ASCII.
func (r *run) with(pairs []rune) *run {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] > unicode.MaxASCII {
			return nil
		}
		for b := pairs[i]; b <= pairs[i+1]; b++ {
			r.set[b] = true
		}
	}
	return r
}

func runOfLiteral(re *syntax.Regexp) *run {
	r := &run{min: len(re.Rune)}
	for _, char := range re.Rune {
		inst := syntax.Inst{Arg: uint32(re.Flags & syntax.FoldCase), Rune: []rune{char}}
		if r = r.with(pairs(&inst)); r == nil {
			return nil
		}
	}
	return r
}

func runOfAlternate(re *syntax.Regexp) *run {
	all, _ := runsOf(re.Sub[0])
	for _, sub := range re.Sub[1:] {
		r, _ := runsOf(sub)
		if r == nil || all == nil {
			return nil
		}
		all = all.joined(r, min(r.min, all.min))
	}
	return all
}

// runsOfConcat looks for runs across consecutive expressions, beginning at each of them.
// Each run begins at most maxRunStarts expressions before its end.
func runsOfConcat(re *syntax.Regexp) (whole, best *run) {
	whole = &run{}
	var rows []*run
	for _, sub := range re.Sub {
		r, inner := runsOf(sub)
		best = longer(best, inner)
		if r == nil {
			whole, rows = nil, nil
			continue
		}
		if whole != nil {
			whole = whole.joined(r, whole.min+r.min)
		}
		rows = append(rows[max(0, len(rows)-maxRunStarts):], &run{})
		for i, row := range rows {
			rows[i] = row.joined(r, row.min+r.min)
			best = longer(best, rows[i])
		}
	}
	return whole, longer(best, whole)
}

// find returns where the first run at or after from begins, -1 if there is none.
func (r *run) find(text []byte, from int) int {
	for at := from + r.min - 1; at < len(text); at += r.min {
		if !r.has(text[at]) {
			continue
		}
		begin := at
		for begin > from && r.has(text[begin-1]) {
			begin--
		}
		for at++; at < len(text) && at < begin+r.min && r.has(text[at]); at++ {
		}
		if at == begin+r.min {
			return begin
		}
		// The byte at at is not in the set.
	}
	return -1
}

func (r *run) has(b byte) bool { return b < utf8.RuneSelf && r.set[b] }
