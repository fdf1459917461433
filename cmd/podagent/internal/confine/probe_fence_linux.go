package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ways are two listeners on the loopback, to try a fence with: one at a port that it lets
// pass, and one at a port that it does not.
type ways struct{ open, shut listener }

// listener is a socket that listens, and its port.
type listener struct {
	fd   int
	port int
}

// openWays opens the listeners.
func openWays(f *Fence) (w ways, err error) {
	if w.open, err = listen(); err != nil {
		return w, fmt.Errorf("%s: %w", Network.Names()[0], err)
	}
	// The kernel chooses the port, and might choose one of the fence's. Listeners that are
	// open meanwhile make it choose another.
	for {
		if w.shut, err = listen(); err != nil {
			unix.Close(w.open.fd)
			return w, fmt.Errorf("%s: %w", Network.Names()[0], err)
		}
		if !slices.Contains(f.Ports, uint16(w.shut.port)) {
			return w, nil
		}
		defer unix.Close(w.shut.fd)
	}
}

func (w ways) close() {
	unix.Close(w.open.fd)
	unix.Close(w.shut.fd)
}

// with returns a fence that also lets the open way pass.
func (w ways) with(f *Fence) *Fence {
	return &Fence{Ports: append(slices.Clone(f.Ports), uint16(w.open.port))}
}

// check tries to leave.
func (w ways) check() error {
	for _, try := range []struct {
		name string
		want error
		do   func() error
	}{
		{"connecting to a port outside", unix.EACCES, w.shut.connect},
		{"fast open", unix.EOPNOTSUPP, w.shut.fastOpen},
		{"UDP", unix.EACCES, func() error { return socket(unix.SOCK_DGRAM, 0) }},
		{"MPTCP", unix.EPROTONOSUPPORT, func() error { return socket(unix.SOCK_STREAM, unix.IPPROTO_MPTCP) }},
		{"connecting to a port that it lets pass", nil, w.open.connect},
	} {
		switch err := try.do(); {
		case errors.Is(err, try.want):
		case isLack(err):
			return fmt.Errorf("%s: %w", try.name, err)
		default:
			return fmt.Errorf("%s: %v, want %v", try.name, err, try.want)
		}
	}
	return nil
}

// listen opens a listener at a port that the kernel chooses.
func listen() (listener, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return listener{}, os.NewSyscallError("socket", err)
	}
	l := listener{fd: fd}
	if err := l.bind(); err != nil {
		unix.Close(fd)
		return listener{}, err
	}
	return l, nil
}

func (l *listener) bind() error {
	if err := unix.Bind(l.fd, l.address()); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(l.fd, 8); err != nil {
		return os.NewSyscallError("listen", err)
	}
	name, err := unix.Getsockname(l.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	l.port = name.(*unix.SockaddrInet4).Port
	return nil
}

// address is the listener's own.
func (l *listener) address() *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Port: l.port, Addr: [4]byte{127, 0, 0, 1}}
}

func (l *listener) connect() error {
	return withSocket(unix.SOCK_STREAM, 0, func(fd int) error { return unix.Connect(fd, l.address()) })
}

func (l *listener) fastOpen() error {
	return withSocket(unix.SOCK_STREAM, 0, func(fd int) error {
		return unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN|unix.MSG_DONTWAIT, l.address())
	})
}

// socket opens a socket of IP, and closes it.
func socket(kind, protocol int) error {
	return withSocket(kind, protocol, func(int) error { return nil })
}

func withSocket(kind, protocol int, do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}
