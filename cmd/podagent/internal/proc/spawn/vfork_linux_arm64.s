#include "textflag.h"

// func vfork(flags uintptr, pidfd, pid *int32) (result uintptr)
//
// Parent and child have one stack. The return address is in a register.
TEXT ·vfork(SB),NOSPLIT,$0-32
	MOVD flags+0(FP), R0
	MOVD $0, R1
	MOVD pidfd+8(FP), R2
	MOVD $0, R3
	MOVD pid+16(FP), R4
	MOVD $0, R5
	MOVD $220, R8 // clone
	SVC
	MOVD R0, result+24(FP)
	RET
