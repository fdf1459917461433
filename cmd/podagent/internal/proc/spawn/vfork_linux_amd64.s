#include "textflag.h"

// func vfork(flags uintptr, pidfd *int32) (result uintptr)
//
// Parent and child have one stack. The child overwrites the return address there, so that
// is kept in a register meanwhile.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-24
	MOVQ flags+0(FP), DI
	MOVQ $0, SI
	MOVQ pidfd+8(FP), DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ $0, R9
	MOVQ $56, AX // clone
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ AX, result+16(FP)
	RET
