package agent

import (
	"context"
	"net/netip"
	"slices"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// List lists the ports at which programs of the sandbox listen.
func (s *portsService) List(ctx context.Context, _ *pb.ListPortsRequest) (*pb.ListPortsResponse, error) {
	own := ownAddresses()
	list, all, err := s.processes.Listeners(ctx, func(ip netip.Addr) bool {
		return ip.IsUnspecified() || slices.Contains(own, ip.String())
	})
	if err != nil {
		return nil, err
	}
	r := &pb.ListPortsResponse{Truncated: !all}
	for _, l := range list {
		port := &pb.ListeningPort{Port: uint32(l.Port), Pid: int64(l.PID), ExecId: l.ExecID, Name: []byte(l.Name[:min(len(l.Name), maxProcessName)])}
		for _, ip := range l.Addresses {
			port.Addresses = append(port.Addresses, ip.String())
		}
		r.Ports = append(r.Ports, port)
	}
	return r, nil
}
