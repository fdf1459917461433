#include "textflag.h"

// func vfork(flags uintptr, pidfd, pid *int32) (result uintptr)
//
// Parent and child have one stack. The child overwrites the return address there, so that
// is kept in a register meanwhile.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-32
	MOVQ flags+0(FP), DI
	MOVQ $0, SI
	MOVQ pidfd+8(FP), DX
	MOVQ pid+16(FP), R10
	MOVQ $0, R8
	MOVQ $0, R9
	MOVQ $56, AX // clone
	POPQ R12
	SYSCALL
	PUSHQ R12
	MOVQ AX, result+24(FP)
	RET
