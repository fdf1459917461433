package linere

import (
	"bytes"
	"encoding/binary"
)

// A word of eight equal bytes is one of them times lowBits.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
	// pairStep is how many places findPair compares at once.
	pairStep = 32
)

// A needle finds a literal by its two rarest bytes.
//
// If the rarest one is rare enough, [bytes.IndexByte] goes from one to the next,
// with the processor's vector instructions. Otherwise both are compared at eight
// places at once, in words of 64 bits, and the places that remain are compared in
// full. That takes the same time for every text.
type needle struct {
	literal
	first, second anchor
	// rare says that the first anchor is a rare byte.
	rare bool
}

// An anchor is a byte of a literal.
type anchor struct {
	at   int
	char byte
	// word is the byte eight times; mask is or-ed to the text before it is
	// compared, and folds the case of a letter.
	word, mask uint64
}

// newNeedles returns needles for the literals. A literal whose rarest byte is a letter
// of either case takes two needles.
func newNeedles(list []literal) []needle {
	var needles []needle
	for _, l := range list {
		n := needle{literal: l, first: l.anchor(-1)}
		n.second = n.first
		if len(l.text) > 1 {
			n.second = l.anchor(n.first.at)
		}
		n.rare = byteBits[n.first.char] >= rareByteBits
		if n.rare && n.first.mask != 0 {
			n.first.mask = 0
			upper := n
			upper.first.char ^= 0x20
			upper.first.word = uint64(upper.first.char) * lowBits
			needles = append(needles, upper)
		}
		needles = append(needles, n)
	}
	return needles
}

// anchor returns the rarest byte of a literal, other than the one at not.
func (l literal) anchor(not int) anchor {
	best, most := 0, -1
	for i := range len(l.text) {
		rarity := 2 * int(byteBits[l.text[i]])
		if not >= 0 && l.text[i] == l.text[not] {
			rarity /= 2 // tells little beside the other
		}
		if i != not && rarity > most {
			best, most = i, rarity
		}
	}
	a := anchor{at: best, char: l.text[best], word: uint64(l.text[best]) * lowBits}
	if l.fold && isLetter(rune(a.char)) {
		a.mask = 0x20 * lowBits
	}
	return a
}

// find returns the first place in text where the literal begins, from lo up to hi,
// which is not included; -1 if there is none.
func (n *needle) find(text []byte, lo, hi int) int {
	hi = min(hi, len(text)-len(n.text)+1)
	if lo >= hi {
		return -1
	}
	if n.rare {
		return n.findRare(text, lo, hi)
	}
	return n.findPair(text, lo, hi)
}

// findRare looks for the rarest byte, with a call for each. If that byte is frequent in
// the text, findPair takes over.
func (n *needle) findRare(text []byte, lo, hi int) int {
	misses, begin := 0, lo
	for at := n.first.at; lo < hi; lo++ {
		skip := bytes.IndexByte(text[lo+at:hi+at], n.first.char)
		if skip < 0 {
			return -1
		}
		lo += skip
		if text[lo+n.second.at]|byte(n.second.mask) == n.second.char && n.is(text[lo:]) {
			return lo
		}
		if misses++; misses > maxMisses && (lo-begin)/misses < minSkip {
			return n.findPair(text, lo+1, hi)
		}
	}
	return -1
}

// findPair compares the two bytes at many places at once.
func (n *needle) findPair(text []byte, lo, hi int) int {
	for lo+pairStep <= hi {
		lo = n.skipPairs(text, lo, hi)
		for end := min(lo+pairStep, hi); lo < end; lo++ {
			if text[lo+n.first.at]|byte(n.first.mask) == n.first.char && n.is(text[lo:]) {
				return lo
			}
		}
	}
	for ; lo < hi; lo++ {
		if n.is(text[lo:]) {
			return lo
		}
	}
	return -1
}

// skipPairs returns the first step from lo on that has both anchors somewhere, or the
// position where less than a step is left.
func (n *needle) skipPairs(text []byte, lo, hi int) int {
	word1, mask1, word2, mask2 := n.first.word, n.first.mask, n.second.word, n.second.mask
	as, bs := text[lo+n.first.at:hi+n.first.at], text[lo+n.second.at:hi+n.second.at]
	for len(as) >= pairStep && len(bs) >= pairStep {
		z := ((le64(as[0:8]) | mask1) ^ word1) | ((le64(bs[0:8]) | mask2) ^ word2)
		hits := (z - lowBits) &^ z
		z = ((le64(as[8:16]) | mask1) ^ word1) | ((le64(bs[8:16]) | mask2) ^ word2)
		hits |= (z - lowBits) &^ z
		z = ((le64(as[16:24]) | mask1) ^ word1) | ((le64(bs[16:24]) | mask2) ^ word2)
		hits |= (z - lowBits) &^ z
		z = ((le64(as[24:32]) | mask1) ^ word1) | ((le64(bs[24:32]) | mask2) ^ word2)
		hits |= (z - lowBits) &^ z
		if hits&highBits != 0 {
			break
		}
		as, bs = as[pairStep:], bs[pairStep:]
	}
	return hi - len(as)
}

func le64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// is reports whether text begins with the literal; it is not shorter.
func (n *needle) is(text []byte) bool {
	if !n.fold {
		return string(text[:len(n.text)]) == n.text
	}
	for i := range len(n.text) {
		c := text[i]
		if c != n.text[i] && (c|0x20 != n.text[i] || !isLetter(rune(c))) {
			return false
		}
	}
	return true
}
