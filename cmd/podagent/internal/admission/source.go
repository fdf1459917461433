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
		uid, err := PeerUID(c)
		return source{owner: owner{uid: uint32(uid)}}, err == nil
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

// PeerUID returns the id of the user who connected to a unix socket. It panics if c is not
// a [*net.UnixConn].
func PeerUID(c net.Conn) (int, error) {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, credErr); err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
