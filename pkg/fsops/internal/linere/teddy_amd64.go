//go:build goexperiment.simd

package linere

import (
	"math"
	"math/bits"
	"simd/archsimd"
)

const (
	// teddyBlock is how many places a teddy looks at together.
	teddyBlock = 32
	// teddyBytes is how many bytes of a literal a teddy looks at.
	teddyBytes = 3
	// teddyBuckets is how many groups of literals it tells apart: each is a bit
	// of a byte.
	teddyBuckets = 8
	// maxTeddyRate bounds the part of the places at which the tables agree: with more to
	// compare in full, the automaton is as fast.
	maxTeddyRate = 1.0 / 64
)

// A teddy finds one of several literals by three bytes of each that follow one
// another, the rarest. Two tables for each of the three tell which buckets have a
// literal with a byte there, one by the byte's upper half and one by its lower
// half; a vector instruction looks up 32 bytes at once. The literals of a bucket
// that all tables agree about are compared in full. The algorithm is that of
// Hyperscan (Wang et al., "Hyperscan: A Fast Multi-pattern Regex Matcher for
// Modern CPUs", 2019).
type teddy struct {
	low, high [teddyBytes][teddyBlock]uint8 // of 16 entries, twice
	buckets   [teddyBuckets][]teddyLiteral
	// rate estimates the part of the places in source code at which the tables agree.
	rate float64
}

type teddyLiteral struct {
	needle
	at int // of the three bytes
}

// newTeddy puts each literal into the bucket that then lets the least text pass.
func newTeddy(list []literal) *teddy {
	t := &teddy{}
	parts := sourceParts()
	var prints [teddyBuckets]fingerprint
	var rates [teddyBuckets]float64
	for _, l := range list {
		at := l.rarest(teddyBytes)
		mine := fingerprintOf(l, at)
		best, rate := 0, math.Inf(1)
		for i, p := range prints {
			if with := p.with(mine).rate(parts); with-rates[i] < rate-rates[best] {
				best, rate = i, with
			}
		}
		prints[best], rates[best] = prints[best].with(mine), rate
		t.buckets[best] = append(t.buckets[best], teddyLiteral{needle{literal: l}, at})
	}
	for i, p := range prints {
		t.rate += rates[i]
		t.enter(1<<i, p)
	}
	return t
}

// enter enters a bucket into the tables.
func (t *teddy) enter(bucket uint8, p fingerprint) {
	for i := range teddyBytes {
		for half := range teddyBlock {
			if p.low[i]>>(half%16)&1 != 0 {
				t.low[i][half] |= bucket
			}
			if p.high[i]>>(half%16)&1 != 0 {
				t.high[i][half] |= bucket
			}
		}
	}
}

// rarest returns the position in a literal of the n rarest consecutive bytes.
func (l literal) rarest(n int) (at int) {
	most := 0
	for i := range len(l.text) - n + 1 {
		if tells := (literal{text: l.text[i : i+n], fold: l.fold}).bits(); tells > most {
			at, most = i, tells
		}
	}
	return at
}

// A fingerprint tells the bytes of some literals by their halves: a bit for each
// of the sixteen that either may be.
type fingerprint struct{ low, high [teddyBytes]uint16 }

// fingerprintOf returns the fingerprint of the bytes at a place of a literal. Any
// byte may follow a literal that is shorter.
func fingerprintOf(l literal, at int) (p fingerprint) {
	for i := range teddyBytes {
		if at+i >= len(l.text) {
			p.low[i], p.high[i] = math.MaxUint16, math.MaxUint16
			continue
		}
		char := l.text[at+i]
		p.low[i], p.high[i] = 1<<(char&0xf), 1<<(char>>4)
		if l.fold && isLetter(rune(char)) {
			p.high[i] |= 1 << ((char ^ 0x20) >> 4)
		}
	}
	return p
}

// with returns the fingerprint of the literals of both.
func (p fingerprint) with(other fingerprint) fingerprint {
	for i := range teddyBytes {
		p.low[i] |= other.low[i]
		p.high[i] |= other.high[i]
	}
	return p
}

// rate estimates the part of the places in source code that have the fingerprint.
func (p fingerprint) rate(parts *[256]float64) float64 {
	rate := 1.0
	for i := range teddyBytes {
		sum := 0.0
		for high := p.high[i]; high != 0; high &= high - 1 {
			for low := p.low[i]; low != 0; low &= low - 1 {
				sum += parts[bits.TrailingZeros16(high)<<4|bits.TrailingZeros16(low)]
			}
		}
		rate *= sum
	}
	return rate
}

// sourceParts returns the part of source code that each byte makes up.
func sourceParts() *[256]float64 {
	var parts [256]float64
	for char, bits := range byteBits {
		parts[char] = math.Exp2(-float64(bits) / 8)
	}
	return &parts
}

func (t *teddy) find(text []byte, from int) (at int, exact bool) {
	text = text[from:]
	for at < len(text) {
		rest := text[at:]
		var padded [teddyBlock + teddyBytes - 1]byte
		if len(rest) < len(padded) {
			copy(padded[:], rest)
			rest = padded[:]
		}
		skipped, hits := t.skip(rest)
		for at += skipped; hits != 0; hits &= hits - 1 {
			if begin, exact := t.verify(text, at+bits.TrailingZeros32(hits)); begin >= 0 {
				return from + begin, exact
			}
		}
		at += teddyBlock
	}
	return -1, false
}

// skip goes to the first block where a place may have the three bytes of a
// literal, or to the last whole one.
func (t *teddy) skip(text []byte) (at int, hits uint32) {
	low0, low1, low2 := archsimd.LoadUint8x32(&t.low[0]), archsimd.LoadUint8x32(&t.low[1]), archsimd.LoadUint8x32(&t.low[2])
	high0, high1, high2 := archsimd.LoadUint8x32(&t.high[0]), archsimd.LoadUint8x32(&t.high[1]), archsimd.LoadUint8x32(&t.high[2])
	half := archsimd.BroadcastUint8x32(0xf)
	shift := archsimd.BroadcastUint16x16(1 << 12) // a multiplication shifts by 4 to the right
	all := len(text)
	for len(text) >= teddyBlock+teddyBytes-1 {
		v0, v1, v2 := archsimd.LoadUint8x32Slice(text), archsimd.LoadUint8x32Slice(text[1:]), archsimd.LoadUint8x32Slice(text[2:])
		found := low0.PermuteOrZeroGrouped(v0.And(half).AsInt8x32()).
			And(high0.PermuteOrZeroGrouped(v0.AsUint16x16().MulHigh(shift).AsUint8x32().And(half).AsInt8x32())).
			And(low1.PermuteOrZeroGrouped(v1.And(half).AsInt8x32())).
			And(high1.PermuteOrZeroGrouped(v1.AsUint16x16().MulHigh(shift).AsUint8x32().And(half).AsInt8x32())).
			And(low2.PermuteOrZeroGrouped(v2.And(half).AsInt8x32())).
			And(high2.PermuteOrZeroGrouped(v2.AsUint16x16().MulHigh(shift).AsUint8x32().And(half).AsInt8x32()))
		at = all - len(text)
		if !found.IsZero() {
			hits = ^found.Equal(archsimd.Uint8x32{}).ToBits()
			break
		}
		text = text[teddyBlock:]
	}
	archsimd.ClearAVXUpperBits()
	return at, hits
}

// verify returns where a literal begins that has its three bytes at the place at
// of a text, -1 if none does.
func (t *teddy) verify(text []byte, at int) (begin int, exact bool) {
	found := ^uint8(0)
	for i := range min(teddyBytes, len(text)-at) {
		char := text[at+i]
		found &= t.low[i][char&0xf] & t.high[i][char>>4]
	}
	for ; found != 0; found &= found - 1 {
		for i := range t.buckets[bits.TrailingZeros8(found)] {
			l := &t.buckets[bits.TrailingZeros8(found)][i]
			begin := at - l.at
			if begin >= 0 && begin+len(l.text) <= len(text) && l.is(text[begin:]) {
				return begin, l.exact
			}
		}
	}
	return -1, false
}
