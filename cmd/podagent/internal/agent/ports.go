package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// portsService is the service Ports.
type portsService struct {
	pb.UnimplementedPortsServer
	*Agent
}

// ports is the state that the connections share.
type ports struct {
	budget tunnel.Budget

	mu   sync.Mutex
	open int
}

// admit counts a connection in, unless there are too many.
func (p *ports) admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= maxConnections {
		return fmt.Errorf("%d connections to ports are open, and no more can be: %w", p.open, syscall.EMFILE)
	}
	p.open++
	return nil
}

// leave counts a connection out.
func (p *ports) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

type dialStream = grpc.BidiStreamingServer[pb.DialRequest, pb.DialResponse]

// Dial carries one connection.
func (s *portsService) Dial(stream dialStream) error {
	first, err := stream.Recv()
	if err != nil {
		return cut(err)
	}
	open := first.GetOpen()
	if open == nil {
		return errFirstMessage("open")
	}
	if err := s.ports.admit(); err != nil {
		return err
	}
	defer s.ports.leave()
	socket, err := dialOwn(stream.Context(), open.Port)
	if err != nil {
		return err
	}
	t := tunnel.New(&tunnel.AgentStream{BidiStreamingServer: stream, Moved: s.activity.touch}, &s.ports.budget)
	t.Allow(open.Limit)
	opened := &pb.DialOpened{Local: socket.LocalAddr().String(), Remote: socket.RemoteAddr().String(), Limit: t.Limit()}
	if err := stream.Send(&pb.DialResponse{Kind: &pb.DialResponse_Opened{Opened: opened}}); err != nil {
		reset(socket)
		return err
	}
	return s.carry(stream.Context(), t, socket)
}

// dialOwn connects to a port of the sandbox: on the loopback, or on another of its own
// addresses. The error is that of the first.
func dialOwn(ctx context.Context, port uint32) (*net.TCPConn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("%d is no port: ports are 1 to 65535: %w", port, syscall.EINVAL)
	}
	dialer := net.Dialer{KeepAlive: -1} // nothing is lost on the way
	var first error
	for _, ip := range ownAddresses() {
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))))
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if first == nil {
			first = plain(err)
		}
		if !errors.Is(first, syscall.ECONNREFUSED) {
			break
		}
	}
	return nil, first
}

// ownAddresses returns the addresses at which a server of the sandbox may listen,
// in the order in which they are tried.
func ownAddresses() []string {
	list := []string{"127.0.0.1", "::1"}
	addrs, _ := net.InterfaceAddrs() // if that fails, only the loopback is tried
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			list = append(list, ip.IP.String())
		}
	}
	return list
}

// plain returns the system's error of a socket alone, since the caller's side adds its
// own words to it. A broken pipe counts as a reset connection.
func plain(err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case !ok:
		return err
	case errno == syscall.EPIPE:
		return syscall.ECONNRESET
	}
	return errno
}

// errStops is why a connection ends that is open when the agent stops.
var errStops = fmt.Errorf("the agent stops: %w", wire.ErrUnavailable)

// reset closes a socket so that the server sees a reset and not an end.
func reset(socket *net.TCPConn) {
	_ = socket.SetLinger(0)
	_ = socket.Close()
}

// carry carries the bytes until the caller has closed, or something has failed.
func (a *Agent) carry(ctx context.Context, t *tunnel.Tunnel, socket *net.TCPConn) error {
	var running sync.WaitGroup
	defer running.Wait()
	received, sent, delivered := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { received <- t.Receive() }() // the end of the call ends it
	running.Go(func() { sent <- a.sendSocket(t, socket) })
	running.Go(func() { delivered <- t.Deliver(socket) })
	err := a.awaitClose(ctx, t, socket, received, sent, delivered)
	if err != nil {
		reset(socket)
		t.Stop()
		return plain(err)
	}
	_ = socket.Close() // if that fails, it is closed all the same
	t.Stop()
	running.Wait()
	return t.Close()
}

// awaitClose returns nil when the caller has closed, and all that it sent is
// delivered.
func (a *Agent) awaitClose(ctx context.Context, t *tunnel.Tunnel, socket *net.TCPConn, received, sent, delivered <-chan error) error {
	look := time.NewTicker(presencePeriod)
	defer look.Stop()
	other := presence{socket: socket}
	for {
		select {
		case <-look.C:
			if other.isOver(sent == nil) {
				return syscall.ECONNRESET
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-a.stopping:
			return errStops
		case err := <-received:
			if err != nil {
				return cut(err)
			}
			received = nil
			t.EndSending()
		case err := <-sent:
			if err != nil {
				return err
			}
			sent = nil
		case err := <-delivered:
			if err == tunnel.ErrClosed {
				return nil
			}
			return a.lastWords(ctx, t, other, err, received, sent)
		}
	}
}

// lastWords passes on what a server has already sent, if the caller still listens. The
// server reads no more, and so the connection has ended with err. What the caller sends meanwhile is taken and
// discarded: one that echoes must not wait for that, or it would take nothing itself.
func (a *Agent) lastWords(ctx context.Context, t *tunnel.Tunnel, server presence, err error, received, sent <-chan error) error {
	if sent == nil || received == nil {
		return err
	}
	go func() { _ = t.Deliver(discarded{}) }() // the end of the tunnel ends it
	look := time.NewTicker(presencePeriod)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-a.stopping:
		case <-received:
		case <-sent:
		case <-look.C:
			if !server.isOver(false) {
				continue
			}
		}
		return err
	}
}

// discarded is where bytes go that nobody reads any more.
type discarded struct{}

func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) CloseWrite() error           { return nil }

// sendSocket sends the server's bytes and its end. When the caller has closed, it discards
// them: a server that writes before it reads must not get stuck, or it would never read
// the bytes that the caller has sent.
func (a *Agent) sendSocket(t *tunnel.Tunnel, socket *net.TCPConn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	err = t.Send(func(most int) ([]byte, error) { return readSocket(raw, most) })
	switch err {
	case nil:
		select {
		case <-a.stopping: // which has ended the server: it did not end its side by itself
			return errStops
		default:
			return t.End()
		}
	case tunnel.ErrEnded:
		_, err = io.Copy(io.Discard, socket)
	}
	return err
}

// readSocket reads the bytes that are there. It gets a buffer only then, because many
// connections wait for a long time.
func readSocket(raw syscall.RawConn, most int) ([]byte, error) {
	var data []byte
	var n int
	var err error
	waitErr := raw.Read(func(fd uintptr) bool {
		data = pb.NewDialBuffer(most)
		n, err = readAgain(int(fd), data[:most])
		if err == syscall.EAGAIN {
			pb.FreeDialBuffer(data)
			return false
		}
		return true
	})
	switch {
	case waitErr != nil:
		return nil, waitErr
	case err != nil:
		pb.FreeDialBuffer(data)
		return nil, err
	case n == 0:
		pb.FreeDialBuffer(data)
		return nil, io.EOF
	}
	return data[:n], nil
}

// readAgain reads, and repeats a read that a signal interrupted.
func readAgain(fd int, p []byte) (int, error) {
	for {
		n, err := syscall.Read(fd, p)
		if err != syscall.EINTR {
			return n, err
		}
	}
}
