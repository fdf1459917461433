package podapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"google.golang.org/grpc"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Dial connects to a TCP port of the sandbox, as net.Dial does to one of this
// machine, also where the server listens on the loopback alone. It reaches no other
// hosts. ctx is for the dialing alone. Errors are *[net.OpError]:
// syscall.ECONNREFUSED if nothing listens, [ErrVersion] if the agent is too old.
//
// The connection has CloseWrite and SetLinger as a *[net.TCPConn] has. Close waits
// up to two seconds until the server's side has what was written; after that the
// client goes on for a minute. If the way to the agent is cut, it fails with
// [ErrUnavailable] or [ErrCut], and the server sees a reset.
func (c *Client) Dial(ctx context.Context, port int) (net.Conn, error) {
	conn, err := c.dialPort(ctx, port)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, Err: err}
	}
	return conn, nil
}

func (c *Client) dialPort(ctx context.Context, port int) (*portConn, error) {
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("%d is no port: ports are 1 to 65535: %w", port, syscall.EINVAL)
	}
	conn, err := c.begin(ctx, c.ports.Dial, &pb.DialOpen{Port: uint32(port)})
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, fmt.Errorf("%w: the agent cannot connect to ports: update the agent's image", ErrVersion)
	}
	return conn, err
}

// carrier is a method that carries a connection.
type carrier func(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[pb.DialRequest, pb.DialResponse], error)

// openConn opens a connection that is served until life ends.
func (c *Client) openConn(life context.Context, carry carrier, open *pb.DialOpen) (*portConn, error) {
	call, err := carry(life)
	if err != nil {
		return nil, wire.FromStatus(err)
	}
	stream := &tunnel.ClientStream{BidiStreamingClient: call}
	t := tunnel.New(stream, &c.budget)
	open.Limit = t.Limit()
	// If sending fails, receiving says why.
	_ = call.Send(&pb.DialRequest{Kind: &pb.DialRequest_Open{Open: open}})
	r, err := call.Recv()
	if err != nil {
		return nil, wire.FromStatus(cutError(err))
	}
	opened := r.GetOpened()
	if opened == nil {
		return nil, protocolError("it did not begin with opened")
	}
	t.Allow(opened.Limit)
	return newPortConn(t, tcpAddr(opened.Local), tcpAddr(opened.Remote)), nil
}

// tcpAddr returns an address from the agent's text.
func tcpAddr(s string) net.Addr {
	addr, err := netip.ParseAddrPort(s)
	if err != nil || checkText("an address", s) != nil {
		return &net.TCPAddr{} // the agent violates the contract
	}
	return net.TCPAddrFromAddrPort(addr)
}
