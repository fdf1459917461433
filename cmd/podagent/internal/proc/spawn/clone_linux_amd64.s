#include "textflag.h"

// func clone(flags, stack uintptr, pidfd *int32, c *child, entry uintptr) (result uintptr)
TEXT ·clone(SB),NOSPLIT,$0-48
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	MOVQ pidfd+16(FP), DX
	MOVQ $0, R10
	MOVQ $0, R8
	MOVQ c+24(FP), R12 // the kernel leaves these alone
	MOVQ entry+32(FP), R13
	MOVQ $56, AX // clone
	SYSCALL
	CMPQ AX, $0
	JEQ child
	MOVQ AX, result+40(FP)
	RET
child: // on its own stack
	MOVQ R12, AX // Go's first argument
	CALL R13
	UNDEF
