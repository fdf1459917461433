#include "textflag.h"

// func clone(flags, stack uintptr, pidfd *int32, c *child, entry uintptr) (result uintptr)
TEXT ·clone(SB),NOSPLIT,$0-48
	MOVD flags+0(FP), R0
	MOVD stack+8(FP), R1
	MOVD pidfd+16(FP), R2
	MOVD $0, R3
	MOVD $0, R4
	MOVD c+24(FP), R19 // the kernel leaves these alone
	MOVD entry+32(FP), R20
	MOVD $220, R8 // clone
	SVC
	CMP $0, R0
	BEQ child
	MOVD R0, result+40(FP)
	RET
child: // on its own stack
	MOVD R19, R0 // Go's first argument
	CALL (R20)
	UNDEF
