package e2e

// The ways out of a pod that TestNothingLeavesAPod tries.

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// egressWay is a way out of a pod, which testdata/leave tries.
type egressWay struct {
	name string
	// try are the program's words. Those in braces stand for what [outside] has.
	try string
	// rare says that pods lack what the try needs whatever the network is, or may lack it. All others
	// lead out of a pod that is left open.
	rare bool
	// root says that a program of root on the node has what pods lack, if its kernel does.
	root bool
	// want is a part of what comes of the try, where something says why it refuses it.
	want string
	// fence and all are words of docs/egress.md, if the level landlock, or both, do not stop the way:
	// then it must lead out there.
	fence, all string
}

// bySocket is a try of reaching a server, by a socket that is prepared with options.
func bySocket(domain, kind, protocol int, to string, options ...string) string {
	text := fmt.Sprint("socket ", domain, " ", kind, " ", protocol, " ", to)
	for _, option := range options {
		text += " " + option
	}
	return text
}

func byMaking(domain, kind, protocol int) string {
	return fmt.Sprint("made ", domain, " ", kind, " ", protocol)
}

const (
	inet, inet6 = unix.AF_INET, unix.AF_INET6
	stream      = unix.SOCK_STREAM
	datagrams   = unix.SOCK_DGRAM
)

var egressWays = []egressWay{
	{name: "TCP to the node", try: bySocket(inet, stream, 0, "{node}")},
	{name: "TCP to the node by its own address", try: bySocket(inet, stream, 0, "{host}")},
	{name: "TCP by its number", try: bySocket(inet, stream, unix.IPPROTO_TCP, "{node}")},
	{name: "TCP by IPv4 within IPv6", try: bySocket(inet6, stream, 0, "{mapped}")},
	{name: "TCP by IPv6", try: bySocket(inet6, stream, 0, "{host6}"), rare: true},
	{name: "TCP to the metadata", try: bySocket(inet, stream, 0, "{metadata}")},
	{name: "TCP to the API server", try: bySocket(inet, stream, 0, "{api}")},
	{name: "TCP to the service of the API server", try: bySocket(inet, stream, 0, "{service}")},
	{name: "TCP to the kubelet", try: bySocket(inet, stream, 0, "{kubelet}")},
	{name: "TCP to another pod", try: bySocket(inet, stream, 0, "{pod}")},
	{name: "TCP to the DNS", try: bySocket(inet, stream, 0, "{dns}")},
	{name: "TCP from the agent's port", try: bySocket(inet, stream, 0, "{node}", "from=7463"), rare: true},
	{name: "TCP from a low port", try: bySocket(inet, stream, 0, "{node}", "from=53"), rare: true, root: true},
	{name: "TCP by a device", try: bySocket(inet, stream, 0, "{node}", "device=eth0")},
	{name: "TCP with a mark", try: bySocket(inet, stream, 0, "{node}", "mark=16384"), rare: true, root: true},
	{name: "TCP from another's address", try: bySocket(inet, stream, 0, "{node}", "transparent"), rare: true, root: true},
	{name: "TCP without a handshake", try: bySocket(inet, stream, 0, "{node}", "repair"), rare: true},
	{name: "TCP by a route of its own", try: bySocket(inet, stream, 0, "{node}", "route"), rare: true},
	{name: "fast open", try: bySocket(inet, stream, 0, "{node}", "fastopen")},
	{name: "fast open by connect", try: bySocket(inet, stream, 0, "{node}", "fastconnect")},
	{name: "MPTCP", try: bySocket(inet, stream, unix.IPPROTO_MPTCP, "{node}"), rare: true},
	{name: "SMC", try: bySocket(inet, stream, 256, "{node}"), rare: true},
	{name: "TCP to the proxy's port of another host", try: bySocket(inet, stream, 0, "{sameport}"), rare: true, fence: "Other hosts at the same ports"},
	{name: "TCP to the proxy of another sandbox", try: bySocket(inet, stream, 0, "{otherproxy}"), rare: true},
	{name: "another pod as a relay", try: bySocket(inet, stream, 0, "{relay}")},
	{name: "another pod that connects to a server here", try: "serve {collected}", fence: "Who connects from outside"},

	{name: "UDP to the node", try: bySocket(inet, datagrams, 0, "{udp}")},
	{name: "UDP to the node by its own address", try: bySocket(inet, datagrams, 0, "{hostudp}")},
	{name: "UDP by IPv4 within IPv6", try: bySocket(inet6, datagrams, 0, "{mappedudp}")},
	{name: "UDP by IPv6", try: bySocket(inet6, datagrams, 0, "{host6udp}"), rare: true},
	{name: "UDP to another pod", try: bySocket(inet, datagrams, 0, "{podudp}")},
	{name: "a tunnel by the cluster's DNS", try: bySocket(inet, datagrams, 0, "{dns}")},
	{name: "a name of the cluster", try: "resolve kubernetes.default.svc.cluster.local", rare: true},
	{name: "a name of the world", try: "resolve c2VjcmV0.example.com", rare: true},
	{name: "UDP as of the DNS", try: bySocket(inet, datagrams, 0, "{udp}", "from=53"), rare: true, root: true},
	{name: "UDP as of DHCP", try: bySocket(inet, datagrams, 0, "{udp}", "from=68"), rare: true, root: true},
	{name: "UDP as of mDNS", try: bySocket(inet, datagrams, 0, "{udp}", "from=5353")},
	{name: "UDP in fragments", try: bySocket(inet, datagrams, 0, "{udp}", "large")},
	{name: "UDP to all hosts", try: bySocket(inet, datagrams, 0, "255.255.255.255:{udpport}", "broadcast"), rare: true},
	{name: "UDP to all pods", try: bySocket(inet, datagrams, 0, "{broadcast}", "broadcast"), rare: true},
	{name: "UDP to a group", try: bySocket(inet, datagrams, 0, "224.0.0.1:{udpport}"), rare: true},
	{name: "UDP to a group by IPv6", try: bySocket(inet6, datagrams, 0, "[ff02::1]:{udpport}"), rare: true},
	{name: "UDP by a route of its own", try: bySocket(inet, datagrams, 0, "{udp}", "route"), rare: true},
	{name: "UDP-Lite", try: bySocket(inet, datagrams, unix.IPPROTO_UDPLITE, "{udp}"), rare: true, root: true},

	{name: "ping", try: bySocket(inet, datagrams, unix.IPPROTO_ICMP, "{node}"), rare: true, root: true},
	{name: "raw ICMP", try: byMaking(inet, unix.SOCK_RAW, unix.IPPROTO_ICMP), rare: true, root: true},
	{name: "raw IP", try: byMaking(inet, unix.SOCK_RAW, unix.IPPROTO_RAW), rare: true, root: true},
	{name: "raw IPv6", try: byMaking(inet6, unix.SOCK_RAW, unix.IPPROTO_RAW), rare: true, root: true},
	{name: "packets", try: byMaking(unix.AF_PACKET, unix.SOCK_RAW, 0x0300), rare: true, root: true},
	{name: "cooked packets", try: byMaking(unix.AF_PACKET, datagrams, 0x0300), rare: true, root: true},
	{name: "XDP", try: byMaking(unix.AF_XDP, unix.SOCK_RAW, 0), rare: true, root: true},
	{name: "SCTP", try: bySocket(inet, stream, unix.IPPROTO_SCTP, "{node}"), rare: true, root: true},
	{name: "DCCP", try: bySocket(inet, unix.SOCK_DCCP, unix.IPPROTO_DCCP, "{node}"), rare: true},
	{name: "RDS", try: byMaking(unix.AF_RDS, unix.SOCK_SEQPACKET, 0), rare: true},
	{name: "TIPC", try: byMaking(unix.AF_TIPC, unix.SOCK_RDM, 0), rare: true},
	{name: "Bluetooth", try: byMaking(unix.AF_BLUETOOTH, unix.SOCK_SEQPACKET, 0), rare: true},
	{name: "RxRPC", try: byMaking(unix.AF_RXRPC, datagrams, inet), rare: true},
	{name: "vsock to the host", try: "vsock 2 {tcpport}", rare: true, root: true},
	{name: "vsock to the hypervisor", try: "vsock 0 {tcpport}", rare: true},
	{name: "netlink of generic families", try: byMaking(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC), rare: true, root: true},

	{name: "an abstract socket of the node", try: "unix @{abstract}", rare: true, root: true},
	{name: "a socket of the node with a path", try: "unix {path}", rare: true, root: true},
	{name: "a process outside of the fence, by a socket with a path", try: "relay {partner}", fence: "processes behind unix sockets with a path"},
	{name: "a process outside of the fence, by an abstract socket", try: "relay @{partner}", rare: true, fence: abstractSockets()},
	{name: "a connection that a process outside of the fence made", try: "receive {partner}-tcp", fence: "a connection of TCP that is made already"},
	{name: "a socket of UDP that a process outside of the fence made", try: "receive {partner}-udp {udp}", fence: "or a socket of UDP"},
	{name: "what a command inherits", try: "inherit", rare: true, want: "there are 3 pipes"},
	{name: "a call of the agent without its key", try: "agent", rare: true},
	{name: "all that listens in the pod", try: "ask {node} {collected} {partner}", rare: true, want: "403"},
	{name: "the connections of the agent, by its process", try: "take", rare: true, root: true},
	{name: "the connections of the agent", try: "open /proc/{agent}/fd", rare: true, root: true},
	{name: "the memory of the agent", try: "open /proc/{agent}/mem", rare: true},
	{name: "the token of an account", try: "open /var/run/secrets/kubernetes.io/serviceaccount/token", rare: true},
	{name: "the network of the agent's parent", try: "setns /proc/1/ns/net", rare: true},
	{name: "another network", try: "unshare", rare: true},
	{name: "the interfaces", try: "flags", rare: true},
	{name: "a tunnel's device", try: "tunnel", rare: true, root: true},
	{name: "io_uring", try: "uring", rare: true, root: true},
	{name: "the resolver of the kernel", try: "lookedup", rare: true},
}

// abstractSockets are the words of the page if the kernel does not let the fence keep commands from
// abstract sockets outside of it.
func abstractSockets() string {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 && abi < 6 {
		return "Since 6.12 it also shuts off abstract unix sockets of others"
	}
	return ""
}

// allEgressWays are those by the network and by the proxy.
func allEgressWays() []egressWay {
	all := slices.Clone(egressWays)
	for _, w := range egressProxyWays {
		w.rare = true
		all = append(all, w)
	}
	return all
}
