package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/admission"
	"github.com/podagent/podagent/cmd/podagent/internal/proc"
)

// splitAddress splits "unix:PATH" and "tcp:HOST:PORT".
func splitAddress(address string) (network, addr string, err error) {
	network, addr, _ = strings.Cut(address, ":")
	if network != "unix" && network != "tcp" || addr == "" {
		return "", "", fmt.Errorf("cannot listen on %q: it is neither unix:PATH nor tcp:HOST:PORT", address)
	}
	return network, addr, nil
}

// isLoopback reports whether only this machine, or this pod, can reach a TCP address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// listenAll opens the listeners of all addresses, or none.
func listenAll(ctx context.Context, addresses []string, ownerOnly bool) ([]net.Listener, error) {
	var listeners []net.Listener
	for _, address := range addresses {
		l, err := listen(ctx, address, ownerOnly)
		if err != nil {
			closeAll(listeners)
			return nil, err
		}
		listeners = append(listeners, l)
	}
	if len(listeners) == 0 {
		return nil, errors.New("cannot serve: there is no address to listen on")
	}
	return listeners, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// listen opens the listener of an address. Only the owner may use a unix socket: its
// mode says so, and with ownerOnly the listener asks the kernel who calls.
func listen(ctx context.Context, address string, ownerOnly bool) (net.Listener, error) {
	network, addr, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	if network == "tcp" {
		return config.Listen(ctx, network, addr)
	}
	if err := removeStale(addr); err != nil {
		return nil, err
	}
	if !ownerOnly {
		return config.Listen(ctx, network, addr)
	}
	// The umask, for a moment, so that the socket is never there with a wider
	// mode. Nothing else makes files yet.
	old := unix.Umask(0o177)
	listener, err := config.Listen(ctx, network, addr)
	unix.Umask(old)
	if err != nil {
		return nil, err
	}
	return ownerListener{listener}, nil
}

// removeStale removes the socket of an agent that was killed. A socket that still
// answers is an error.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("cannot listen on %s: a file is in the way", path)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return fmt.Errorf("cannot listen on %s: %w by another agent", path, syscall.EADDRINUSE)
	}
	return os.Remove(path)
}

// ownerListener accepts only the connections of the agent's own user, and of root. It accepts none of
// commands of sandboxes: whatever keeps them in, an agent that has no key to ask for would do for them
// what they cannot.
type ownerListener struct{ net.Listener }

func (l ownerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if isOwner(conn) {
			return conn, nil
		}
		conn.Close()
	}
}

// isOwner reports whether such a process has connected. One in no namespace of this program has no number here, so
// that nothing says whether it is a command of a sandbox.
func isOwner(conn net.Conn) bool {
	peer, err := admission.PeerOf(conn)
	if err != nil || peer.Pid == 0 || int(peer.Uid) != os.Getuid() && peer.Uid != 0 {
		return false
	}
	marked, err := proc.IsMarked(int(peer.Pid))
	return err == nil && !marked && admission.PeerLives(conn) // so that it was this process that was looked at
}
