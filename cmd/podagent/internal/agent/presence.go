package agent

import (
	"net"

	"golang.org/x/sys/unix"
)

// presence finds out whether the program behind a socket is gone, while nobody reads the socket or
// writes to it. A program that ends with nothing unread says no more than one that has only ended its
// direction: a minute later the kernel forgets the end of such a program, and answers the next probe
// with a reset.
type presence struct {
	socket *net.TCPConn
	unread int
	stalls int // how often unread was the same
}

// isOver reports whether nothing more can come of the connection. If allRead, its bytes and their end
// were read; otherwise they may still be wanted, but not for ever.
func (p *presence) isOver(allRead bool) bool {
	reset, unread := p.look()
	switch {
	case !reset || allRead:
		return reset
	case unread != p.unread:
		p.unread, p.stalls = unread, 0
	default:
		p.stalls++
	}
	return p.stalls >= mostStalls
}

// look reports whether the socket has failed, and how many bytes wait in it. It takes neither.
func (p *presence) look() (reset bool, unread int) {
	raw, err := p.socket.SyscallConn()
	if err != nil {
		return true, 0
	}
	err = raw.Control(func(fd uintptr) {
		events := []unix.PollFd{{Fd: int32(fd)}}
		if n, err := unix.Poll(events, 0); err == nil && n > 0 {
			reset = events[0].Revents&unix.POLLERR != 0
		}
		unread, _ = unix.IoctlGetInt(int(fd), unix.SIOCINQ) // 0 is nothing that could still be taken
	})
	return reset || err != nil, unread
}
