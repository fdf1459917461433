package admission

import (
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// source tells callers apart, as far as they are known before a handshake.
type source struct {
	// address is that of another pod or machine.
	address netip.Addr
	// owner owns the socket of a peer in the agent's own network namespace.
	owner owner
}

// owner is the user and the cgroup (v2) of the process that made a socket. The cgroup is
// zero where it is unknown.
type owner struct {
	uid    uint32
	cgroup uint64
}

// source returns where a connection comes from. It is not present if the peer has closed
// its end, and so waits for no answer.
func (p *peers) source(c net.Conn) (from source, present bool) {
	remote, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		peer, err := PeerOf(c)
		return source{owner: owner{uid: peer.Uid}}, err == nil
	}
	there, here := unmapped(remote), unmapped(c.LocalAddr().(*net.TCPAddr))
	if there.Addr() != here.Addr() && !there.Addr().IsLoopback() {
		return source{address: there.Addr()}, true
	}
	// The address says nothing: a peer chooses it from all of the loopback's.
	from.owner, present = p.owner(there, here)
	return from, present
}

// unmapped returns an address as IPv4 if it is one within IPv6.
func unmapped(a *net.TCPAddr) netip.AddrPort {
	ap := a.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// PeerOf returns who connected to a unix socket. Its process is 0 if that is in no namespace of this
// program's, and may have ended meanwhile. PeerOf panics if c is not a [*net.UnixConn].
func PeerOf(c net.Conn) (peer unix.Ucred, err error) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return peer, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return peer, err
	}
	return *cred, nil
}

// PeerLives reports whether the process that connected to a unix socket has not ended. Kernels before 6.5
// cannot say.
func PeerLives(c net.Conn) bool {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	lives := false
	_ = raw.Control(func(fd uintptr) {
		process, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, soPeerPidfd)
		if err != nil {
			lives = err == unix.ENOPROTOOPT
			return
		}
		defer unix.Close(process)
		lives = unix.PidfdSendSignal(process, 0, nil, 0) != unix.ESRCH
	})
	return lives
}

// soPeerPidfd is SO_PEERPIDFD of socket(7).
const soPeerPidfd = 77
