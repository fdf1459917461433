//go:build goexperiment.simd

package linere

import (
	"math/bits"
	"simd/archsimd"
)

// pairBlock is how many places a vectorPair compares at once.
const pairBlock = 64

// A vectorPair finds a literal by its two rarest bytes, which it compares at
// many places at once.
type vectorPair struct{ needle }

func newVectorPair(l literal) *vectorPair {
	v := &vectorPair{needle{literal: l, first: l.anchor(-1)}}
	v.second = l.anchor(v.first.at)
	return v
}

func (v *vectorPair) find(text []byte, from int) (at int, exact bool) {
	places := len(text) - len(v.text) + 1
	if places-from < pairBlock {
		return v.needle.find(text, from, places), v.exact
	}
	for at = from; at < places; at += pairBlock {
		at = min(at, places-pairBlock) // some may be looked at twice
		skipped, hits := v.skip(text[at+v.first.at:places+v.first.at], text[at+v.second.at:places+v.second.at])
		for at += skipped; hits != 0; hits &= hits - 1 {
			if hit := at + bits.TrailingZeros64(hits); v.is(text[hit:]) {
				return hit, v.exact
			}
		}
	}
	return -1, false
}

// skip goes to the first of the blocks that has both anchors at a place, or to the
// last whole one. The slices have the bytes at the anchors of each place.
func (v *vectorPair) skip(as, bs []byte) (at int, hits uint64) {
	char1, char2 := archsimd.BroadcastUint8x32(v.first.char), archsimd.BroadcastUint8x32(v.second.char)
	mask1, mask2 := archsimd.BroadcastUint8x32(uint8(v.first.mask)), archsimd.BroadcastUint8x32(uint8(v.second.mask))
	all := len(as)
	for len(as) >= pairBlock && len(bs) >= pairBlock {
		low := archsimd.LoadUint8x32Slice(as).Or(mask1).Equal(char1).
			And(archsimd.LoadUint8x32Slice(bs).Or(mask2).Equal(char2))
		high := archsimd.LoadUint8x32Slice(as[32:]).Or(mask1).Equal(char1).
			And(archsimd.LoadUint8x32Slice(bs[32:]).Or(mask2).Equal(char2))
		at = all - len(as)
		if low.Or(high).ToBits() != 0 {
			hits = uint64(low.ToBits()) | uint64(high.ToBits())<<32
			break
		}
		as, bs = as[pairBlock:], bs[pairBlock:]
	}
	archsimd.ClearAVXUpperBits()
	return at, hits
}
