package bench

import (
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

const routerPackage = "sigs.k8s.io/agent-sandbox/sandbox-router/cmd"

// BenchmarkGatewayBesideAgentSandboxsRouter measures requests to a server in a sandbox by the gateway
// and by agent-sandbox's router. The router dials the pod's address, and asks nobody whether the caller
// may; so does one of the gateways, but it checks a token, and whose sandbox it is.
func BenchmarkGatewayBesideAgentSandboxsRouter(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	l := c.By(b, launcher.ByAddress).Launcher()
	byAddress := openDoor(b, l, c.Spec(""))
	byAddress.post(b, "/api/v1/sandboxes", `{"id":"bench"}`)
	s, err := l.Open(b.Context(), "main.bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	p := &pod{s, c}

	byPortForward := openDoor(b, c.By(b, launcher.ByPortForward).Launcher(), c.Spec(""))
	port := p.startEcho(b, "0.0.0.0:0", "http")
	router := startRouter(b)
	address := p.address(b, port)
	compare(b, "calls", "a request to a server in the sandbox, beside agent-sandbox's router", 300,
		side{name: "podagent's gateway, by address", do: byAddress.routed(b, port)},
		side{name: "podagent's gateway, by port-forward", do: byPortForward.routed(b, port)},
		side{name: "agent-sandbox's router", do: router.routed(b, address)},
		side{name: "ReverseProxy by address", do: reverseProxied(b, address)},
	)
}

// router is agent-sandbox's router, on this machine.
type router struct{ url string }

func startRouter(b *testing.B) *router {
	b.Helper()
	serving, probed := freePorts(b)
	cmd := exec.Command(build(b, "sandbox-router", routerPackage),
		"--http-bind-address=127.0.0.1:"+serving, "--health-probe-bind-address=127.0.0.1:"+probed, "--metrics-bind-address=")
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill() // whatever it does
		_ = cmd.Wait()
		if b.Failed() {
			b.Log(output.String())
		}
	})
	ready, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "http://127.0.0.1:"+probed+"/readyz", nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := await(b.Context(), "the router is not ready", func() error { return answered(ready) }); err != nil {
		b.Fatal(err)
	}
	return &router{"http://127.0.0.1:" + serving}
}

// routed returns a request to the server at the address of a pod.
func (r *router) routed(b *testing.B, address string) func() error {
	b.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		b.Fatal(err)
	}
	return func() error {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, r.url, nil)
		if err != nil {
			return err
		}
		req.Header.Set("X-Sandbox-ID", "bench")
		req.Header.Set("X-Sandbox-Pod-IP", host)
		req.Header.Set("X-Sandbox-Port", port)
		return answered(req)
	}
}
