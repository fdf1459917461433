package podapi

import (
	"context"
	"fmt"
	"net/netip"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// ListeningPort is a TCP port at which programs of the sandbox listen, at these addresses and perhaps more. PID is the
// oldest process that has the socket.
type ListeningPort struct {
	Port, PID int
	Addresses []netip.Addr
	Name      string // which the process gave itself: up to 64 bytes of any kind
	ExecID    string // of the process in [Client.Processes] that it belongs to, or empty
}

// Ports lists the ports at which [Client.Dial] reaches programs of the sandbox, but not those of another user, in order, and says whether
// there may be more: beyond 1000. It does not end the idle time. An old agent's error is [ErrVersion].
func (c *Client) Ports(ctx context.Context) (list []ListeningPort, more bool, err error) {
	r, err := c.ports.List(ctx, &pb.ListPortsRequest{})
	switch {
	case isUnknownCall(err):
		return nil, false, fmt.Errorf("%w: the agent cannot list ports: update the agent's image", ErrVersion)
	case err != nil:
		return nil, false, wire.FromStatus(err)
	case len(r.Ports) > maxPorts:
		return nil, false, protocolError("%d ports", len(r.Ports))
	}
	last := 0
	for _, p := range r.Ports {
		port, err := portFromProto(p)
		if err == nil && port.Port <= last {
			err = protocolError("port %d after %d", port.Port, last)
		}
		if err != nil {
			return nil, false, err
		}
		list, last = append(list, port), port.Port
	}
	return list, r.Truncated, nil
}

func portFromProto(p *pb.ListeningPort) (ListeningPort, error) {
	port := ListeningPort{Port: int(p.Port), PID: int(p.Pid), Name: string(p.Name), ExecID: p.ExecId}
	if p.Port < 1 || p.Port > 65535 || len(p.Addresses) > maxPortAddresses || len(p.Name) > maxProcessName {
		return ListeningPort{}, protocolError("the port %d with %d addresses and a name of %d bytes", p.Port, len(p.Addresses), len(p.Name))
	}
	err := checkNumbers("a number of a process", p.Pid)
	if p.ExecId != "" {
		err = firstError(err, checkExecID(p.ExecId))
	}
	for _, text := range p.Addresses {
		ip, bad := netip.ParseAddr(text)
		if bad != nil || ip.Zone() != "" {
			err = protocolError("the address %.50q", text)
		}
		port.Addresses = append(port.Addresses, ip)
	}
	return port, err
}
