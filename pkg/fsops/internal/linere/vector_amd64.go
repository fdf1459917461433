//go:build goexperiment.simd

package linere

import "simd/archsimd"

const (
	// maxAlternatives bounds the literals of which a match must have one: with four for
	// each of its buckets, a teddy is still several times as fast as the automaton.
	maxAlternatives = 4 * teddyBuckets
	// literalCost is the cost of another literal, in eighths of a bit: all take one pass,
	// but it has more to compare in full.
	literalCost = 4
	// vectorBits is how rare a byte must be to be looked for alone, in eighths of a bit:
	// bytes.IndexByte is faster than comparing two bytes if it seldom stops.
	vectorBits = 8 * 9
)

// newVectorSearch returns a search for the literals with the vectors of AVX2; nil if the
// processor has none, or if needles or the automaton are faster.
func newVectorSearch(list []literal) vectorSearch {
	if len(list) == 0 || !archsimd.X86.AVX2() {
		return nil
	}
	if len(list) == 1 {
		if a := list[0].anchor(-1); a.mask == 0 && byteBits[a.char] >= vectorBits || len(list[0].text) == 1 {
			return nil
		}
		return newVectorPair(list[0])
	}
	if t := newTeddy(list); t.rate <= maxTeddyRate {
		return t
	}
	return nil
}
