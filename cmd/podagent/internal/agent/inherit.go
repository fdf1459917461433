package agent

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Bind opens the sockets of an agent's addresses for another program, which inherits them and serves in
// its place: see [Config].Sockets. Nobody can connect before that.
func Bind(addresses []string) ([]*os.File, error) {
	var sockets []*os.File
	for _, address := range addresses {
		s, err := bind(address)
		if err != nil {
			for _, other := range sockets {
				other.Close()
			}
			return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
		}
		sockets = append(sockets, s)
	}
	return sockets, nil
}

func bind(address string) (*os.File, error) {
	network, addr, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	family, to := unix.AF_UNIX, unix.Sockaddr(&unix.SockaddrUnix{Name: addr})
	if network == "tcp" {
		if family, to, err = tcpAddress(addr); err != nil {
			return nil, err
		}
	} else if err := removeStale(addr); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), address)
	if family != unix.AF_UNIX {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) // as package net does
	}
	old := unix.Umask(0o177) // see listen
	err = unix.Bind(fd, to)
	unix.Umask(old)
	if err != nil {
		socket.Close()
		return nil, os.NewSyscallError("bind", err)
	}
	return socket, nil
}

func tcpAddress(addr string) (family int, to unix.Sockaddr, err error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return 0, nil, err
	}
	ip := tcp.AddrPort().Addr().Unmap()
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: tcp.Port, Addr: ip.As4()}, nil
	}
	if !ip.IsValid() {
		return unix.AF_INET6, &unix.SockaddrInet6{Port: tcp.Port}, nil
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: tcp.Port, Addr: ip.As16()}, nil
}

// inherited returns the listeners of sockets that [Bind] has opened.
func inherited(sockets []*os.File, ownerOnly bool) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, s := range sockets {
		l, err := listenAt(s)
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("cannot listen on an inherited socket: %w", err)
		}
		if ownerOnly && l.Addr().Network() == "unix" {
			l = ownerListener{l}
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

func listenAt(socket *os.File) (net.Listener, error) {
	defer socket.Close()
	if err := unix.Listen(int(socket.Fd()), unix.SOMAXCONN); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	return net.FileListener(socket)
}
