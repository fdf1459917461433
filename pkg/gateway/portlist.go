package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func (g *Gateway) portListOperations() {
	register(g, http.MethodGet, sandboxRoot+"/ports", "list-ports", "List the ports at which programs of the sandbox listen; this does not end its idle time", g.listPorts)
}

// ListeningPort is a TCP port at which a program of the sandbox listens.
type ListeningPort struct {
	Port      int      `json:"port"`
	Addresses []string `json:"addresses" nullable:"false" doc:"where it listens, up to 8 IP addresses: 0.0.0.0 and :: are all addresses"`
	PID       int      `json:"pid" doc:"of the oldest process that has the socket"`
	Name      string   `json:"name,omitempty" doc:"what that process calls itself; U+FFFD stands for what is no text"`
	ExecID    string   `json:"exec_id,omitempty" doc:"of the command that it belongs to; missing if the sandbox knows none"`
}

type portListOutput struct {
	Body struct {
		Ports     []ListeningPort `json:"ports" nullable:"false" doc:"in order, up to 1000; not those of programs into which the sandbox's agent may not look, such as another user's"`
		Truncated bool            `json:"truncated,omitempty" doc:"there may be more"`
	}
}

func (g *Gateway) listPorts(ctx context.Context, in *sandboxPath) (*portListOutput, error) {
	out := &portListOutput{}
	out.Body.Ports = []ListeningPort{}
	return out, g.lookAt(ctx, in.ID, func(s *launcher.Sandbox) error {
		list, more, err := s.Ports(ctx)
		for _, p := range list {
			out.Body.Ports = append(out.Body.Ports, portOf(p))
		}
		out.Body.Truncated = more
		return err
	})
}

func portOf(p podapi.ListeningPort) ListeningPort {
	out := ListeningPort{Port: p.Port, PID: p.PID, Name: strings.ToValidUTF8(p.Name, "\ufffd"), ExecID: p.ExecID, Addresses: []string{}}
	for _, ip := range p.Addresses {
		out.Addresses = append(out.Addresses, ip.String())
	}
	return out
}
