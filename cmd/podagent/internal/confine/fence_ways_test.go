//go:build !race

package confine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// way is a way out of the fence, which testdata/leave.c tries.
type way struct {
	name string
	// try are the program's arguments. Words in braces stand for what [surroundings] has.
	try string
	// want is the error that ends the try within the fence, or "left".
	want string
	// rare says that this kernel, or the rights of the test, may lack what the try needs.
	// All others leave without a fence.
	rare bool
	// page is how docs/egress.md calls a way that leaves.
	page string
}

// wide is the number n with bits that the kernel ignores in an int.
func wide(n int) string { return fmt.Sprint(1<<32 | n) }

// made is a try of making a socket, and to and send are tries of reaching a server by one.
func made(domain, kind, protocol int) string {
	return fmt.Sprint("socket ", domain, " ", kind, " ", protocol)
}

func to(domain, kind, protocol int, address string) string {
	return fmt.Sprint("connect ", domain, " ", kind, " ", protocol, " ", address)
}

func send(call string, domain, kind, protocol int, address string, flags int) string {
	return fmt.Sprint(call, " ", domain, " ", kind, " ", protocol, " ", address, " ", flags)
}

const (
	inet, inet6 = unix.AF_INET, unix.AF_INET6
	tcp, udp    = unix.SOCK_STREAM, unix.SOCK_DGRAM
	mptcp       = unix.IPPROTO_MPTCP
	fast        = unix.MSG_FASTOPEN
	flagged     = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
)

// tcpWays are tries of connecting by TCP.
var tcpWays = []way{
	{name: "the open port", try: to(inet, tcp, 0, "127.0.0.1 {open}"), want: "left", page: "TCP connects to the proxy's port"},
	{name: "the open port of another host", try: to(inet, tcp, 0, "127.0.0.2 {open}"), want: "left", page: "Other hosts at the same ports"},
	{name: "TCP", try: to(inet, tcp, 0, "127.0.0.1 {shut}"), want: "EACCES"},
	{name: "TCP to another host", try: to(inet, tcp, 0, "127.0.0.2 {shut}"), want: "EACCES"},
	{name: "TCP by its number", try: to(inet, tcp, 6, "127.0.0.1 {shut}"), want: "EACCES"},
	{name: "TCP to any address", try: to(inet, tcp, 0, "0.0.0.0 {shut}"), want: "EACCES"},
	{name: "TCP by IPv6", try: to(inet6, tcp, 0, "::1 {shut6}"), want: "EACCES"},
	{name: "TCP by IPv4 within IPv6", try: to(inet6, tcp, 0, "::ffff:127.0.0.1 {shut}"), want: "EACCES"},
	{name: "TCP without waiting", try: to(inet, tcp|flagged, 0, "127.0.0.1 {shut}"), want: "EACCES", rare: true},
	{name: "TCP from the open port", try: "bound 127.0.0.1 {shut} {open}", want: "EACCES"},
	{name: "TCP after the open port", try: "reconnect 127.0.0.1 {open} {shut}", want: "EACCES"},
	{name: "TCP to itself", try: "itself", want: "EACCES"},
	{name: "TCP of a thread", try: "thread " + to(inet, tcp, 0, "127.0.0.1 {shut}"), want: "EACCES"},
	{name: "TCP of an orphan", try: "orphan " + to(inet, tcp, 0, "127.0.0.1 {shut}"), want: "EACCES"},
	{name: "TCP of a program without environment", try: "exec " + to(inet, tcp, 0, "127.0.0.1 {shut}"), want: "EACCES"},
	{name: "TCP within a domain of its own", try: "loosen {shut} " + to(inet, tcp, 0, "127.0.0.1 {shut}"), want: "EACCES"},
	{name: "fast open by sendto", try: send("sendto", inet, tcp, 0, "127.0.0.1 {shut}", fast), want: "EOPNOTSUPP"},
	{name: "fast open by sendmsg", try: send("sendmsg", inet, tcp, 0, "127.0.0.1 {shut}", fast), want: "EOPNOTSUPP"},
	{name: "fast open by sendmmsg", try: send("sendmmsg", inet, tcp, 0, "127.0.0.1 {shut}", fast), want: "EOPNOTSUPP"},
	{name: "fast open by IPv6", try: send("sendto", inet6, tcp, 0, "::1 {shut6}", fast), want: "EOPNOTSUPP"},
	{name: "fast open, wide", try: send("sendto", inet, tcp, 0, "127.0.0.1 {shut}", 1<<32|fast), want: "EOPNOTSUPP"},
	{name: "fast open, among other flags", try: send("sendmsg", inet, tcp, 0, "127.0.0.1 {shut}", fast|unix.MSG_NOSIGNAL), want: "EOPNOTSUPP"},
	{name: "fast open by connect", try: "fastconnect 127.0.0.1 {shut}", want: "ENOPROTOOPT"},
	{name: "TCP without a handshake", try: "repair 127.0.0.1 {shut}", want: "EPERM", rare: true},
	{name: "another protocol over TCP", try: "upperlayer 127.0.0.1 {open} smc", want: "ENOENT", rare: true},
	{name: "TLS of the kernel", try: "upperlayer 127.0.0.1 {open} tls", want: "ENOENT", rare: true},
	{name: "MPTCP", try: to(inet, tcp, mptcp, "127.0.0.1 {shut}"), want: "EPROTONOSUPPORT"},
	{name: "MPTCP by IPv6", try: to(inet6, tcp, mptcp, "::1 {shut6}"), want: "EPROTONOSUPPORT"},
	{name: "MPTCP, wide", try: "connect " + wide(inet) + " " + wide(tcp) + " " + wide(mptcp) + " 127.0.0.1 {shut}", want: "EPROTONOSUPPORT"},
}

// otherWays are tries by other protocols and families.
var otherWays = []way{
	{name: "UDP", try: send("sendto", inet, udp, 0, "127.0.0.1 {udp}", 0), want: "EACCES"},
	{name: "UDP by its number", try: send("sendto", inet, udp, unix.IPPROTO_UDP, "127.0.0.1 {udp}", 0), want: "EACCES"},
	{name: "UDP with flags", try: send("sendmsg", inet, udp|flagged, 0, "127.0.0.1 {udp}", 0), want: "EACCES"},
	{name: "UDP that is connected", try: to(inet, udp, 0, "127.0.0.1 {udp}"), want: "EACCES"},
	{name: "UDP by IPv6", try: send("sendmmsg", inet6, udp, 0, "::ffff:127.0.0.1 {udp}", 0), want: "EACCES"},
	{name: "UDP, wide", try: "sendto " + wide(inet) + " " + wide(udp) + " 0 127.0.0.1 {udp} 0", want: "EACCES"},
	{name: "UDP to the open port", try: send("sendto", inet, udp, 0, "127.0.0.1 {open}", 0), want: "EACCES"},
	{name: "UDP behind a filter of its own", try: "loosen {shut} " + send("sendto", inet, udp, 0, "127.0.0.1 {udp}", 0), want: "EACCES"},
	{name: "UDP-Lite", try: made(inet, udp, unix.IPPROTO_UDPLITE), want: "EACCES", rare: true},
	{name: "ping", try: made(inet, udp, unix.IPPROTO_ICMP), want: "EACCES", rare: true},
	{name: "ping by IPv6", try: made(inet6, udp, unix.IPPROTO_ICMPV6), want: "EACCES", rare: true},
	{name: "raw ICMP", try: made(inet, unix.SOCK_RAW, unix.IPPROTO_ICMP), want: "EACCES", rare: true},
	{name: "raw IP", try: made(inet, unix.SOCK_RAW, unix.IPPROTO_RAW), want: "EACCES", rare: true},
	{name: "raw IPv6", try: made(inet6, unix.SOCK_RAW, unix.IPPROTO_RAW), want: "EACCES", rare: true},
	{name: "raw TCP", try: made(inet, unix.SOCK_RAW, unix.IPPROTO_TCP), want: "EACCES", rare: true},
	{name: "packets by their old name", try: made(inet, unix.SOCK_PACKET, 0), want: "EACCES", rare: true},
	{name: "packets", try: made(unix.AF_PACKET, unix.SOCK_RAW, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "cooked packets", try: made(unix.AF_PACKET, udp, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "XDP", try: made(unix.AF_XDP, unix.SOCK_RAW, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "SCTP", try: made(inet, tcp, unix.IPPROTO_SCTP), want: "EPROTONOSUPPORT", rare: true},
	{name: "SCTP of many", try: made(inet, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP), want: "EACCES", rare: true},
	{name: "DCCP", try: made(inet, unix.SOCK_DCCP, unix.IPPROTO_DCCP), want: "EACCES", rare: true},
	{name: "SMC", try: made(unix.AF_SMC, tcp, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "SMC by a protocol's number", try: made(inet, tcp, 256), want: "EPROTONOSUPPORT", rare: true},
	{name: "vsock", try: made(unix.AF_VSOCK, tcp, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "vsock of datagrams", try: made(unix.AF_VSOCK, udp, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "vsock, wide", try: "socket " + wide(unix.AF_VSOCK) + " 1 0", want: "EAFNOSUPPORT", rare: true},
	{name: "TIPC", try: made(unix.AF_TIPC, unix.SOCK_RDM, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "a pair of TIPC", try: fmt.Sprint("socketpair ", unix.AF_TIPC, " ", tcp, " 0"), want: "EAFNOSUPPORT", rare: true},
	{name: "Bluetooth", try: made(unix.AF_BLUETOOTH, unix.SOCK_SEQPACKET, 0), want: "EAFNOSUPPORT", rare: true},
	{name: "RxRPC", try: made(unix.AF_RXRPC, udp, inet), want: "EAFNOSUPPORT", rare: true},
	{name: "all other families", try: "families", want: "EAFNOSUPPORT", rare: true},
	{name: "netlink of generic families", try: made(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC), want: "EPROTONOSUPPORT"},
	{name: "netlink to other programs", try: made(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_USERSOCK), want: "EPROTONOSUPPORT"},
	{name: "a tunnel's device", try: "tunnel", want: "EPERM", rare: true},
	{name: "io_uring", try: "uring", want: "EPERM", rare: true},
	{name: "a key that a resolver of the kernel looks up", try: "key", want: "EPERM", rare: true},
	{name: "i386", try: "foreign i386 2 2 0", want: "ENOSYS", rare: true},
	{name: "x32", try: "foreign x32 2 2 0", want: "ENOSYS", rare: true},
}

// accompliceWays are tries by what is outside of the fence.
var accompliceWays = []way{
	{name: "an abstract socket outside", try: "unix 1 @{abstract}", want: "EPERM"},
	{name: "an abstract socket of datagrams outside", try: "unix 2 @{abstract}-datagram", want: "EPERM"},
	{name: "a path's socket outside", try: "unix 1 {path}", want: "left", page: "unix sockets with a path"},
	{name: "a path's socket of datagrams outside", try: "unix 2 {path}-datagram", want: "left", page: "unix sockets with a path"},
	{name: "a connection that it receives", try: "receive {path}-connection write", want: "left", page: "whoever passes on open descriptors"},
	{name: "a socket of UDP that it receives", try: "receive {path}-udp sendto 127.0.0.1 {udp} 0", want: "left", page: "whoever passes on open descriptors"},
	{name: "a socket of TCP that it receives", try: "receive {path}-tcp connect 127.0.0.1 {shut}", want: "EACCES"},
	{name: "fast open of a socket that it receives", try: fmt.Sprint("receive {path}-tcp sendto 127.0.0.1 {shut} ", fast), want: "EOPNOTSUPP"},
	{name: "a socket of TCP that it inherits", try: "inherit connect 127.0.0.1 {shut}", want: "EACCES"},
	{name: "tracing a process outside", try: "process trace {pid}", want: "EPERM", rare: true},
	{name: "the memory of a process outside", try: "process mem {pid}", want: "EACCES", rare: true},
	{name: "writing to a process outside", try: "process vmwrite {pid}", want: "EPERM", rare: true},
	{name: "the files of a process outside", try: "process root/etc/hostname {pid}", want: "EACCES", rare: true},
	{name: "a socket of a process outside", try: "process getfd {pid} 3 127.0.0.1 {udp} 0", want: "EPERM", rare: true},
	{name: "signals to a process outside", try: "process kill {pid}", want: "EPERM"},
}
