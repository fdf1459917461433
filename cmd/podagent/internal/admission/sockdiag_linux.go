package admission

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The layout of a question about one socket, and of its answer, from linux/sock_diag.h and
// linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	noCookie         = ^uint32(0)
	stateListen      = 10
	attrCgroup       = 21 // INET_DIAG_CGROUP_ID, since Linux 5.7

	requestSize = unix.SizeofNlMsghdr + 56
	messageSize = 72 // of struct inet_diag_msg
	atState     = 1  // in it
	atUID       = 64
	atInode     = 68

	// answerSize is enough for an answer's fixed part and the few attributes that come
	// unasked.
	answerSize = 4 << 10
)

// peers asks the kernel about sockets in the agent's network namespace. Where it cannot
// (a sandboxed kernel may not answer), all of them have the same owner. It serves one
// goroutine.
type peers struct {
	fd       int // -1 if the kernel does not answer
	sequence uint32
}

// openPeers connects to the kernel.
func openPeers() *peers {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return &peers{fd: -1}
	}
	return &peers{fd: fd}
}

func (p *peers) close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// owner returns the owner of the peer's socket, of a TCP connection with these ends. It is
// not present if the owner has closed it: the kernel then has no owner for it, and may say
// that it is root's.
func (p *peers) owner(peer, agent netip.AddrPort) (o owner, present bool) {
	if p.fd < 0 {
		return owner{}, true
	}
	if err := unix.Sendto(p.fd, p.request(peer, agent), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return owner{}, true
	}
	// The kernel answers before Sendto returns. Answers to earlier questions are there
	// only if reading them has failed.
	for buffer := make([]byte, answerSize); ; {
		n, _, err := unix.Recvfrom(p.fd, buffer, 0)
		if err != nil {
			return owner{}, true
		}
		if kind, body, ok := p.answer(buffer[:n]); ok {
			return parseOwner(kind, body)
		}
	}
}

// request returns the question for the socket of a TCP connection at its end from.
func (p *peers) request(from, to netip.AddrPort) []byte {
	p.sequence++
	family := byte(unix.AF_INET6)
	if from.Addr().Is4() {
		family = unix.AF_INET
	}
	native, b := binary.NativeEndian, make([]byte, 0, requestSize)
	b = native.AppendUint32(b, requestSize)
	b = native.AppendUint16(b, sockDiagByFamily)
	b = native.AppendUint16(b, unix.NLM_F_REQUEST)
	b = native.AppendUint32(b, p.sequence)
	b = native.AppendUint32(b, 0)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = native.AppendUint32(b, ^uint32(0)) // any state
	b = binary.BigEndian.AppendUint16(b, from.Port())
	b = binary.BigEndian.AppendUint16(b, to.Port())
	for _, end := range []netip.AddrPort{from, to} {
		var padded [16]byte
		copy(padded[:], end.Addr().AsSlice())
		b = append(b, padded[:]...)
	}
	b = native.AppendUint32(b, 0) // any interface
	b = native.AppendUint32(b, noCookie)
	return native.AppendUint32(b, noCookie)
}

// answer returns the kind and the body of a message, if it is the answer to the last
// question.
func (p *peers) answer(message []byte) (kind uint16, body []byte, ok bool) {
	native := binary.NativeEndian
	if len(message) < unix.SizeofNlMsghdr || native.Uint32(message[8:]) != p.sequence {
		return 0, nil, false
	}
	return native.Uint16(message[4:]), message[unix.SizeofNlMsghdr:], true
}

// parseOwner returns what an answer says. An error other than that there is no such
// socket says nothing.
func parseOwner(kind uint16, body []byte) (o owner, present bool) {
	native := binary.NativeEndian
	if kind == unix.NLMSG_ERROR {
		return o, len(body) < 4 || -int32(native.Uint32(body)) != int32(unix.ENOENT)
	}
	if len(body) < messageSize {
		return o, true
	}
	if body[atState] == stateListen || native.Uint32(body[atInode:]) == 0 {
		return o, false
	}
	o.uid = native.Uint32(body[atUID:])
	for rest := body[messageSize:]; len(rest) >= unix.SizeofRtAttr; {
		length, name := int(native.Uint16(rest)), native.Uint16(rest[2:])
		if length < unix.SizeofRtAttr || length > len(rest) {
			break
		}
		if name == attrCgroup && length >= unix.SizeofRtAttr+8 {
			o.cgroup = native.Uint64(rest[unix.SizeofRtAttr:])
		}
		rest = rest[min(len(rest), (length+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
	}
	return o, true
}
