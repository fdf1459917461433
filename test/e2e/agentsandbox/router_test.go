package agentsandbox

// agent-sandbox's clients, unmodified, with a gateway in the place of its router.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podagent/podagent/pkg/gateway"
	router "github.com/podagent/podagent/pkg/gateway/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/contracts"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// routerFor returns the address of a gateway for the tenants acme, whose key is "a", and other, whose key
// is "b".
func routerFor(t *testing.T, c *launchertest.Cluster) string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %x\n  other:\n    keys:\n    - sha256: %x\n", sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b")))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{
		Launcher: launcherOf(c), Tenants: &gateway.Keys{Path: keys}, Base: c.Spec(""),
		Faces: []gateway.Face{&router.Face{Namespace: c.Namespace}},
	})
	server := httptest.NewUnstartedServer(g)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return strings.TrimPrefix(server.URL, "http://")
}

// poolOf makes a warm pool whose template says that its Sandboxes are a tenant's.
func poolOf(t *testing.T, c *launchertest.Cluster, size int, tenant string) {
	t.Helper()
	spec := c.Spec("")
	spec.Pod.Labels = map[string]string{gateway.LabelTenant: tenant}
	makePool(t, c, size, spec)
}

func TestClientsOfAgentSandboxUseAGatewayAsTheirRouter(t *testing.T) {
	t.Parallel()
	c := withController(t)
	poolOf(t, c, 1, "acme")
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	client := exec.CommandContext(ctx, launchertest.AgentSandboxClient(t),
		"-kubeconfig", c.Kubeconfig, "-namespace", c.Namespace, "-pool", warm, "-router", "http://key:a@"+routerFor(t, c))
	client.Stdout, client.Stderr = contracts.Record(t, "agent-sandbox", "agent-sandbox@v1.0.3"), t.Output()
	if err := client.Run(); err != nil {
		t.Fatal(err)
	}
}

// A Sandbox is for the tenant of its template alone, by its name, its UID and its namespace.
func TestSandboxesOfOthersAreThoseOfTheirTemplatesTenant(t *testing.T) {
	t.Parallel()
	c := withController(t)
	poolOf(t, c, 1, "acme")
	name := sandboxOfClaim(t, c, "theirs")
	now, err := resourceOf(t, c, sandboxes).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waiting := anotherSandbox(t, c, name)
	own := harness.Launch(t, launcherOf(c), c.Spec("other.own"))
	at := "http://" + routerFor(t, c) + "/exists/%2E"
	for what, s := range map[string]struct {
		key, name, uid, namespace string
		want                      int
	}{
		"the tenant's":               {"a", name, "", c.Namespace, 200},
		"by its UID":                 {"a", name, string(now.GetUID()), "", 200},
		"by another UID":             {"a", name, "other", "", 410},
		"in another namespace":       {"a", name, "", "default", 410},
		"another tenant's":           {"b", name, "", c.Namespace, 410},
		"one that waits in the pool": {"a", waiting, "", c.Namespace, 410},
		"by the name of its claim":   {"a", "theirs", "", c.Namespace, 410},
		"the other tenant's own":     {"b", "own", "", c.Namespace, 200},
		"another's own":              {"a", "own", "", c.Namespace, 410},
		"another's own pod":          {"a", own.PodName(), "", c.Namespace, 410},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("key", s.key)
		for header, value := range map[string]string{"X-Sandbox-ID": s.name, "X-Sandbox-UID": s.uid, "X-Sandbox-Namespace": s.namespace} {
			if value != "" {
				r.Header.Set(header, value)
			}
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != s.want {
			t.Errorf("%s: %d, want %d", what, answer.StatusCode, s.want)
		}
	}
}

// sandboxOfClaim makes a claim on the pool, as agent-sandbox's clients do, and returns the name of its Sandbox.
func sandboxOfClaim(t *testing.T, c *launchertest.Cluster, claim string) (name string) {
	t.Helper()
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
		"metadata": map[string]any{"name": claim},
		"spec":     map[string]any{"warmPoolRef": map[string]any{"name": warm}},
	}}
	if _, err := resourceOf(t, c, sandboxClaims).Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the claim's Sandbox", func() bool {
		now, err := resourceOf(t, c, sandboxClaims).Get(t.Context(), claim, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ = unstructured.NestedString(now.Object, "status", "sandbox", "name")
		return name != ""
	})
	return name
}

// anotherSandbox returns the name of a Sandbox that waits in the pool beside one.
func anotherSandbox(t *testing.T, c *launchertest.Cluster, beside string) (waiting string) {
	t.Helper()
	harness.Await(t, "another Sandbox that waits in the pool", func() bool {
		all, err := resourceOf(t, c, sandboxes).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Items {
			if s.GetName() != beside {
				waiting = s.GetName()
			}
		}
		return waiting != ""
	})
	return waiting
}
