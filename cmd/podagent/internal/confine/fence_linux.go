package confine

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// The answers of the fence are those of a kernel that lacks what is asked for, since
// programs and their libraries then do without it at once.
const (
	// noRight is also what Landlock says of a port, and what resolvers give up at.
	noRight   = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	noFamily  = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	noOption  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOPROTOOPT)
	noULP     = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOENT)
	noFlag    = unix.SECCOMP_RET_ERRNO | uint32(unix.EOPNOTSUPP)
	noProto   = foreign
	streamBit = unix.SOCK_STREAM
	otherBits = 0xf &^ streamBit // of a socket's type, which has flags above them
)

// tcpOnly are the steps for sockets of IP: Landlock judges no others, and no other protocol
// whose sockets are streams, such as MPTCP.
var tcpOnly = []step{
	has(1, otherBits, noRight),
	has(1, streamBit, 0).to(
		is(2, 0, allow),
		isNot(2, unix.IPPROTO_TCP, noProto),
	),
	rest(noRight),
}

// fencing are the refused calls that get past Landlock's check of connect(2).
var fencing = []rule{
	{unix.SYS_SOCKET, []step{
		is(0, unix.AF_UNIX, allow),
		is(0, unix.AF_INET, 0).to(tcpOnly...),
		is(0, unix.AF_INET6, 0).to(tcpOnly...),
		isNot(0, unix.AF_NETLINK, noFamily), // what is allowed of that says the rule beneath
	}},
	{unix.SYS_SOCKETPAIR, []step{isNot(0, unix.AF_UNIX, noFamily)}},

	// Fast open connects without connect(2).
	{unix.SYS_SENDTO, []step{has(3, unix.MSG_FASTOPEN, noFlag)}},
	{unix.SYS_SENDMSG, []step{has(2, unix.MSG_FASTOPEN, noFlag)}},
	{unix.SYS_SENDMMSG, []step{has(3, unix.MSG_FASTOPEN, noFlag)}},
	{unix.SYS_SETSOCKOPT, []step{
		isNot(1, unix.SOL_TCP, allow),
		is(2, unix.TCP_FASTOPEN_CONNECT, noOption),
		is(2, unix.TCP_REPAIR, refuse), // makes connections of nothing
		is(2, unix.TCP_ULP, noULP),     // makes another protocol of a socket of TCP (SMC)
	}},

	// A network device made of a file, whose packets are the program's own.
	{unix.SYS_IOCTL, []step{is(1, unix.TUNSETIFF, refuse)}},
}

// noUnixSockets are the refused calls where rules for files do not judge unix sockets: some of those with a
// path start programs outside for whoever asks. What a program makes for itself and its children stays, but
// for pairs of datagram sockets, which send to any path.
var noUnixSockets = []rule{
	{unix.SYS_SOCKET, []step{is(0, unix.AF_UNIX, noRight)}},
	{unix.SYS_SOCKETPAIR, []step{has(1, unix.SOCK_DGRAM, noRight)}},
}

// to returns the step with what follows when its test is passed, in place of an answer.
func (s step) to(then ...step) step {
	s.then = then
	return s
}

// rules are those of the filter.
func (b boundary) rules() []rule {
	rules := slices.Concat(refusedCalls, shield(unix.Gettid(), b.shielded()))
	if b.parts&Network != 0 {
		rules = before(rules, fencing)
	}
	if version, err := landlock.Version(); b.parts&Files != 0 && (err != nil || version < landlock.SocketsVersion) {
		rules = before(rules, noUnixSockets)
	}
	return rules
}

// before returns the rules with others, whose steps come before those that there are for their system
// calls.
func before(rules, others []rule) []rule {
	for _, first := range others {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.number == first.number })
		if i < 0 {
			rules = append(rules, first)
			continue
		}
		rules[i].steps = slices.Concat(first.steps, rules[i].steps)
	}
	return rules
}
