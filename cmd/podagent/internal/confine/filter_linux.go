package confine

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// The kernel gives a filter the call as a structure (seccomp_data): its number, the
// architecture of its numbers, and six arguments of 64 bits. A filter loads 32 bits at a
// time. Where the kernel takes an int it ignores the upper half, and so must the filter:
// otherwise an argument with any of the upper bits set would get past a comparison.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
	// x32 is the bit by which calls of the x32 ABI differ on amd64.
	x32 = 0x40000000
)

// low and high are the offsets of the halves of an argument, on little-endian machines.
func low(arg uint32) uint32  { return offArgs + 8*arg }
func high(arg uint32) uint32 { return low(arg) + 4 }

// step ends a filter if a half of an argument passes the test: with the answer or, where
// there are steps for that case, as these say.
type step struct {
	half   uint32
	test   bpf.JumpTest
	value  uint32
	answer uint32
	then   []step
}

// rule is what the filter does with a system call: the steps in order, and if none of them
// answers, the call is allowed.
type rule struct {
	number uint32
	steps  []step
}

const (
	allow   = unix.SECCOMP_RET_ALLOW
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	missing = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	// foreign is the answer of a kernel that does not know a protocol. Programs that
	// audit users (useradd) do without it then, but not after EPERM.
	foreign = unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)
	// invalid is the answer of file systems without leases, for which programs that want some are made.
	invalid = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
)

// always refuses a call whatever its arguments are.
func always(number, answer uint32) rule {
	return rule{number, []step{rest(answer)}}
}

// rest gives the answer to what no step before it has answered.
func rest(answer uint32) step {
	return step{half: offNumber, test: bpf.JumpLessThan, value: x32, answer: answer}
}

// is gives the answer if the lower half of an argument is the value, and isNot if it is not.
func is(arg, value, answer uint32) step {
	return step{half: low(arg), test: bpf.JumpEqual, value: value, answer: answer}
}

func isNot(arg, value, answer uint32) step {
	return step{half: low(arg), test: bpf.JumpNotEqual, value: value, answer: answer}
}

// has gives the answer if the lower half of an argument has any of these bits.
func has(arg, bits, answer uint32) step {
	return step{half: low(arg), test: bpf.JumpBitsSet, value: bits, answer: answer}
}

// others refuses a call whose first argument names another process than the caller's, or
// a thread.
func others(number uint32) rule {
	return rule{number, []step{isNot(0, 0, refuse)}}
}

// refusedCalls are those that the filter refuses. All others are allowed, above all ptrace: debuggers and
// the leak check of AddressSanitizer need it, and the agent is not dumpable.
var refusedCalls = []rule{
	// By these a command could cripple the agent, which has the same user: no more
	// descriptors, or no time of the processor.
	{unix.SYS_PRLIMIT64, []step{
		is(0, 0, allow),
		isNot(2, 0, refuse),
		{half: high(2), test: bpf.JumpNotEqual, value: 0, answer: refuse},
	}},
	others(unix.SYS_SCHED_SETSCHEDULER),
	others(unix.SYS_SCHED_SETPARAM),
	others(unix.SYS_SCHED_SETATTR),
	{unix.SYS_SETPRIORITY, []step{
		is(0, unix.PRIO_USER, refuse),
		isNot(1, 0, refuse),
	}},
	{unix.SYS_IOPRIO_SET, []step{
		is(0, ioprioWhoUser, refuse),
		isNot(1, 0, refuse),
	}},

	// Parts of the kernel that ordinary programs do not need, and that attackers have
	// used to take it over. A new user namespace opens most of the rest. A child of the
	// caller's parent would be one of the agent's thread, where nobody waits for it.
	{unix.SYS_CLONE, []step{has(0, unix.CLONE_NEWUSER|unix.CLONE_PARENT, refuse)}},
	{unix.SYS_UNSHARE, []step{has(0, unix.CLONE_NEWUSER, refuse)}},
	always(unix.SYS_CLONE3, missing), // its flags are in memory: libraries fall back to clone
	always(unix.SYS_BPF, refuse),
	always(unix.SYS_IO_URING_SETUP, refuse),
	always(unix.SYS_IO_URING_ENTER, refuse),
	always(unix.SYS_IO_URING_REGISTER, refuse),
	always(unix.SYS_KEYCTL, refuse),
	always(unix.SYS_ADD_KEY, refuse),
	always(unix.SYS_REQUEST_KEY, refuse),
	always(unix.SYS_USERFAULTFD, refuse),
	always(unix.SYS_SYSLOG, refuse), // what the kernel logs is of the whole machine
	{unix.SYS_SOCKET, []step{
		is(0, unix.AF_VSOCK, noFamily), // it leads to the hypervisor, past every network namespace
		isNot(0, unix.AF_NETLINK, allow),
		isNot(2, unix.NETLINK_ROUTE, foreign),
	}},

	// A command could make its environment look as large as it likes to those who read it.
	{unix.SYS_PRCTL, []step{is(0, unix.PR_SET_MM, refuse)}},
}

// shield are the rules that keep signals from a thread. It is in the domain of the commands,
// so that the kernel would let them signal it, and with it the whole program: a thread's
// number names its process, too.
//
// They also keep from the program what is sent to the number pid. Where the domain scopes no
// signals that is the program's own, so that "kill 1" or "pkill -KILL ." does not end the
// agent by mistake: gVisor lets processes kill number 1. Calls by other threads' numbers
// still reach it, since the Go runtime itself needs tgkill.
func shield(tid, pid int) []rule {
	thread, program := uint32(tid), uint32(pid)
	both := func(arg uint32) []step { return []step{is(arg, thread, refuse), is(arg, program, refuse)} }
	return []rule{
		{unix.SYS_KILL, both(0)},
		{unix.SYS_TKILL, both(0)},
		{unix.SYS_TGKILL, []step{is(1, thread, refuse)}},
		{unix.SYS_RT_SIGQUEUEINFO, both(0)},
		{unix.SYS_RT_TGSIGQUEUEINFO, []step{is(1, thread, refuse)}},
		{unix.SYS_PIDFD_OPEN, []step{is(0, thread, refuse)}},
		// A file's owner gets its SIGIO, or any signal in place of that. All but F_SETOWN
		// name the owner in memory, which a filter cannot read.
		{unix.SYS_FCNTL, []step{
			is(1, unix.F_SETOWN_EX, refuse),
			// While there is a lease on a file, others wait who open it, for up to fs.lease-break-time: 45 s.
			// To read it is enough to lease it.
			is(1, unix.F_SETLEASE, invalid),
			is(1, setDelegation, invalid),
			isNot(1, unix.F_SETOWN, allow),
			is(2, thread, refuse),
			is(2, program, refuse),
		}},
		{unix.SYS_IOCTL, []step{
			is(1, fiosetown, refuse),
			is(1, siocspgrp, refuse),
			// It types into a terminal. What a command types would be taken for its user's words.
			is(1, unix.TIOCSTI, refuse),
		}},
		// It takes a file of /proc.
		always(unix.SYS_PIDFD_SEND_SIGNAL, missing), // programs fall back to kill
	}
}

// setDelegation is F_SETDELEG of Linux 6.19, which leases directories, too.
const setDelegation = 1024 + 16

// fiosetown and siocspgrp are ioctls by which sockets get an owner. Programs use F_SETOWN.
const (
	fiosetown = 0x8901
	siocspgrp = 0x8902
)

// ioprioWhoUser is IOPRIO_WHO_USER of ioprio_set(2).
const ioprioWhoUser = 3

// filterProgram is the filter of these rules. It refuses all calls by another
// architecture's numbers, which it does not know: they would reach the same kernel.
func filterProgram(rules []rule) []bpf.Instruction {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: missing},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1},
		bpf.RetConstant{Val: missing},
	}
	for _, r := range rules {
		program = append(program, r.instructions()...)
	}
	return append(program, bpf.RetConstant{Val: allow})
}

// instructions expect the call's number in the accumulator, and leave it there for other
// calls.
func (r rule) instructions() []bpf.Instruction {
	body := instructions(r.steps)
	skip := bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.number, SkipFalse: uint8(len(body))}
	return append([]bpf.Instruction{skip}, body...)
}

// instructions are those of the steps in order, and end the filter in any case.
func instructions(steps []step) []bpf.Instruction {
	var body []bpf.Instruction
	for _, s := range steps {
		passed := []bpf.Instruction{bpf.RetConstant{Val: s.answer}}
		if s.then != nil {
			passed = instructions(s.then)
		}
		body = append(body,
			bpf.LoadAbsolute{Off: s.half, Size: 4},
			bpf.JumpIf{Cond: s.test, Val: s.value, SkipFalse: uint8(len(passed))})
		body = append(body, passed...)
	}
	return append(body, bpf.RetConstant{Val: allow})
}

// loadFilter loads the filter of these rules on the calling thread. It leaves the
// processor's speculation as it is: the filter is no boundary within a process.
func loadFilter(rules []rule) error {
	raw, err := bpf.Assemble(filterProgram(rules))
	if err != nil {
		return err
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		filter[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	load := func(flags uintptr) syscall.Errno {
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
		return errno
	}
	errno := load(unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	if errno == unix.EINVAL { // Linux before 4.17, and gVisor, do not know the flag
		errno = load(0)
	}
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
