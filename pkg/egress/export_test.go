package egress

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/podagent/podagent/pkg/podapi"
)

// With these variables the program of the tests is a far end: of the agent behind this socket, by
// these rules.
const (
	farEndSocket = "PODAGENT_TEST_FAR_END_SOCKET"
	farEndRules  = "PODAGENT_TEST_FAR_END_RULES"
)

// Connections returns how many connections of the sandbox are open.
func (s *Server) Connections() int { return len(s.proxy.slots) }

// ServesAsFarEnd serves as the variables say, if they are set, until the process is killed or the
// agent ends. It writes a line when it serves.
func ServesAsFarEnd() (serves bool, err error) {
	socket := os.Getenv(farEndSocket)
	if socket == "" {
		return false, nil
	}
	var policy Policy
	for _, text := range strings.Fields(os.Getenv(farEndRules)) {
		rule, err := ParseRule(text)
		if err != nil {
			return true, err
		}
		policy.Allow = append(policy.Allow, rule)
	}
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
	if err != nil {
		return true, err
	}
	defer client.Close()
	s, err := Serve(context.Background(), client, Options{Policy: policy})
	if err != nil {
		return true, err
	}
	fmt.Println("serving")
	<-s.Done()
	return true, s.Close()
}
