package e2e

// The chart's MCP server, with a client outside of the cluster.

import (
	"bufio"
	"context"
	"net/http"
	"os/exec"
	"regexp"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// chartMCP are the values for an MCP server with an image of the test cluster.
var chartMCP = []string{
	"--set", "rbac.identity.read=true,mcp.enabled=true,mcp.image=podagent.test/orchestrator:dev",
	"--set", "mcp.settings.command={count=/usr/bin/wc}",
}

func TestChartsMCPServerServesAClient(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		// values are further values, and target is what the port-forward names.
		values, target string
		// shared puts the sandboxes into the release's namespace.
		shared bool
	}{
		"on the loopback":              {"mcp.port=9931", "deployment/podagent-mcp", false},
		"by its Service":               {"mcp.allowRemote=true,mcp.service.create=true,mcp.service.port=80", "service/podagent-mcp", false},
		"by address":                   {"mcp.settings.connection=address,networkPolicy.address=true", "deployment/podagent-mcp", false},
		"with the sandboxes beside it": {"namespace.create=false,namespace.name=", "deployment/podagent-mcp", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRelease(t)
			r.secret(t, "podagent-mcp", mcpToken)
			values := append([]string{"--set", "mcp.settings.image=" + r.cluster.Image + "," + test.values}, chartMCP...)
			sandboxes := r.sandboxes
			if test.shared {
				sandboxes = r.namespace
			}
			r.helm(t, "install", append([]string{chart}, values...)...)
			callChartsServer(t, r.forward(t, test.target))
			if pods := listSandboxes(t, r, sandboxes); pods != 1 {
				t.Errorf("one client has %d sandboxes", pods)
			}
			// The server keeps its rights until it has ended, so it leaves nothing
			// behind.
			r.helm(t, "upgrade", append([]string{chart}, append(values, "--set", "mcp.enabled=false")...)...)
			harness.Await(t, "the end of the client's sandbox", func() bool { return listSandboxes(t, r, sandboxes) == 0 })
			r.helm(t, "uninstall")
		})
	}
}

// callChartsServer is a client that just disconnects. Its sandbox stays until the
// server ends.
func callChartsServer(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	if _, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, MaxRetries: -1}, nil); err == nil {
		t.Error("a client without the token was admitted")
	}
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(mcpToken)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		tool  string
		input args
		want  string
	}{
		{"Bash", args{"command": "echo hello >a.txt; id -u"}, "1000\n"},
		{"count", args{"args": []string{"-l", "a.txt"}}, "1 a.txt\n"},
	} {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: call.tool, Arguments: call.input})
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != call.want || result.IsError {
			t.Errorf("%s: %+v", call.tool, result.Content[0])
		}
	}
}

func listSandboxes(t *testing.T, r *release, namespace string) int {
	t.Helper()
	list, err := r.cluster.API(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=podagent"})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

// forwarded matches what kubectl prints when it listens.
var forwarded = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)

// forward makes kubectl forward a free port to the port of the server behind a
// target, until the test ends. It returns the URL of the MCP server.
func (r *release) forward(t *testing.T, target string) string {
	t.Helper()
	cmd := exec.Command(kubectlProgram(t, r.cluster), "--kubeconfig", r.cluster.Kubeconfig, "--namespace", r.namespace,
		"port-forward", target, ":mcp")
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	address := forwarded.FindString(line)
	if address == "" {
		t.Fatalf("kubectl port-forward %s: %q, %v", target, line, err)
	}
	return "http://" + address + "/mcp"
}
