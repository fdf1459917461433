package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/admission"
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

// Pass listens on a socket that [Bind] has opened once the program at the other end of to has begun to
// accept, and passes connections on to it. It returns when that program has ended.
func Pass(opened, to *os.File, ownerOnly bool) error {
	conn, err := net.FileConn(to)
	if err != nil {
		return err
	}
	defer conn.Close()
	pair := conn.(*net.UnixConn)
	if _, err := pair.Read(make([]byte, 1)); err != nil {
		return nil // it has ended
	}
	listener, err := listenAt(opened, ownerOnly)
	if err != nil {
		return err
	}
	defer listener.Close()
	callers := admission.Patient(listener)
	for {
		caller, err := callers.Accept()
		if err != nil {
			return err
		}
		err = passOn(pair, caller)
		caller.Close()
		if hasEnded(err) {
			return nil
		}
	}
}

// hasEnded reports whether an error of passing a connection on means that nobody takes it any more. Others cost one
// caller, who can call again: the kernel counts the descriptors that are under way for all processes of a user
// together, and another sandbox may have used them up (ETOOMANYREFS).
func hasEnded(err error) bool {
	return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
}

func passOn(pair *net.UnixConn, caller net.Conn) error {
	raw, err := caller.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = pair.WriteMsgUnix([]byte{0}, unix.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}

// passed is a listener of the connections that [Pass] passes on.
type passed struct {
	*net.UnixConn
	ask func() error // tells Pass to begin
}

func newPassed(from *os.File) (*passed, error) {
	conn, err := net.FileConn(from)
	from.Close()
	if err != nil {
		return nil, err
	}
	pair := conn.(*net.UnixConn)
	return &passed{pair, sync.OnceValue(func() error {
		_, err := pair.Write([]byte{0})
		return err
	})}, nil
}

func (p *passed) Addr() net.Addr { return p.LocalAddr() }

func (p *passed) Accept() (net.Conn, error) {
	if err := p.ask(); err != nil {
		return nil, err
	}
	for {
		data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := p.ReadMsgUnix(data, rights)
		if errors.Is(err, io.EOF) || hasEnded(err) {
			return nil, net.ErrClosed // the program that passes them has ended
		}
		if err != nil {
			return nil, err
		}
		// Where there is no descriptor left for a connection, it does not come with its message.
		if conn, err := connIn(rights[:n]); err == nil {
			return conn, nil
		}
	}
}

// connIn returns the connection that came with a message.
func connIn(rights []byte) (net.Conn, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(err, unix.EINVAL)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(err, unix.EINVAL)
	}
	unix.CloseOnExec(fds[0])
	socket := os.NewFile(uintptr(fds[0]), "connection")
	defer socket.Close()
	return net.FileConn(socket)
}

// inherited returns the listeners of the sockets that another program has opened.
func (c *Config) inherited(ownerOnly bool) (listeners []net.Listener, err error) {
	for _, s := range c.Sockets {
		var l net.Listener
		if c.SocketsPass {
			l, err = newPassed(s)
		} else {
			l, err = listenAt(s, ownerOnly)
		}
		if err != nil {
			closeAll(listeners)
			return nil, fmt.Errorf("cannot listen on an inherited socket: %w", err)
		}
		listeners = append(listeners, l)
	}
	return listeners, nil
}

// listenAt listens on a socket, and closes it.
func listenAt(socket *os.File, ownerOnly bool) (net.Listener, error) {
	defer socket.Close()
	if err := unix.Listen(int(socket.Fd()), unix.SOMAXCONN); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	l, err := net.FileListener(socket)
	if err == nil && ownerOnly && l.Addr().Network() == "unix" {
		l = ownerListener{l}
	}
	return l, err
}
