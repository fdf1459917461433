#include "textflag.h"

// func clone(flags, stack uintptr, pidfd, tid *int32, c *child, entry uintptr) (result uintptr)
TEXT ·clone(SB),NOSPLIT,$0-56
	MOVD flags+0(FP), R0
	MOVD stack+8(FP), R1
	MOVD pidfd+16(FP), R2
	MOVD $0, R3
	MOVD tid+24(FP), R4
	MOVD c+32(FP), R19 // the kernel leaves these alone
	MOVD entry+40(FP), R20
	MOVD $220, R8 // clone
	SVC
	CMP $0, R0
	BEQ child
	MOVD R0, result+48(FP)
	RET
child: // on its own stack
	MOVD R19, R0 // Go's first argument
	CALL (R20)
	UNDEF
