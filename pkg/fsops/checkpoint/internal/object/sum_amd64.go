//go:build goexperiment.simd

package object

import "simd/archsimd"

// clearUpper has the processor forget the upper halves of its vector registers. Where the experiment is on, the runtime
// fills them when it interrupts a goroutine, and while they have anything SHA-256 takes a hundred times as long.
func clearUpper() {
	if archsimd.X86.AVX() {
		archsimd.ClearAVXUpperBits()
	}
}
