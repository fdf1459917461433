package e2e

// The way out of sandboxes that are paused and resumed, and of those whose policy goes.

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/metrics"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// farEndCounter counts the sandboxes that gateways let out.
type farEndCounter struct {
	*metrics.Metrics
	now atomic.Int64
}

func (c *farEndCounter) FarEnds(more int) { c.now.Add(int64(more)) }

// letOutGateways serves two gateways whose tenant acme reaches a site, with a credential of its. It
// returns calls of each, and how many far ends they have.
func letOutGateways(t *testing.T, c *launchertest.Cluster, site *webSite) (calls [2]tenantCalls, farEnds *atomic.Int64) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"token": "the-value", "links": strings.Repeat("link", 8)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tenants := tenantsOfPolicy(t, fmt.Sprintf(`
    egress:
      mode: network
      require: network
      allow_hosts: [%q, "api.test:443"]
      credentials: [{name: API_KEY, hosts: [api.test], value_file: %q}]`, site.rule("site"), filepath.Join(dir, "token")))
	base := c.Spec("")
	base.Pod.Workspace = launcher.Workspace{Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, 1)}
	counter := &farEndCounter{Metrics: metrics.New()}
	for i := range calls {
		g := gateway.New(gateway.Options{
			Launcher: c.Launcher(), Base: base, Tenants: tenants, Ledger: leasesOf(c),
			LinkKeys: &gateway.LinkKeys{Path: filepath.Join(dir, "links")}, Observers: []gateway.Observer{counter},
		})
		server := httptest.NewServer(g)
		t.Cleanup(func() {
			server.Close()
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		calls[i] = tenantCalls{t, server.URL, "acme"}
	}
	return calls, &counter.now
}

// A paused sandbox has no far end. The first command after it is resumed has its way out, with the
// placeholders and the CA that it had before, whichever gateway resumed it, and why.
func TestSandboxIsLetOutAgainWhenItIsResumed(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	applyEgress(t, c)
	site := newWebSite(t, "127.0.0.1")
	calls, farEnds := letOutGateways(t, c, site)
	calls[0].want(201, "POST", "", `{"id":"job-1","auto_pause":true,"idle_seconds":600}`)
	script := site.get("site", "/") + ` && tail -n 1 <&3; echo "$API_KEY"; sha256sum < "$SSL_CERT_FILE"`
	before := calls[0].run("job-1", script)
	if lines := strings.Split(before, "\n"); len(lines) != 4 || lines[0] != "hello" || lines[1] == "" || strings.Contains(before, "the-value") {
		t.Fatalf("it gets %q", before)
	}
	for i, resume := range []func(){
		func() { calls[1].want(200, "POST", "/job-1/resume", "") },
		func() {}, // the next call resumes it
	} {
		calls[i].want(204, "POST", "/job-1/pause", "")
		harness.Await(t, "the end of its far ends", func() bool { return farEnds.Load() == 0 })
		resume()
		if after := calls[1-i].run("job-1", script); after != before {
			t.Errorf("after it was resumed it gets %q, want %q", after, before)
		}
	}
}

// A sandbox whose network must lead nowhere ends soon after it leads somewhere, also while its far end
// serves on.
func TestSandboxEndsWhenThePolicyOfItsNetworkIsDeleted(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	applyEgress(t, c)
	s := harness.Launch(t, c.Launcher(), closed(c, "closed"))
	looks := s.Command(t.Context(), "sh", "-c", looksOnce)
	if err := looks.Start(); err != nil {
		t.Fatal(err)
	}
	letOut(t, s, egress.Options{})
	if err := looks.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := c.API(t).NetworkingV1().NetworkPolicies(c.Namespace).Delete(t.Context(), "podagent-egress", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var ended *corev1.ContainerStateTerminated
	harness.Await(t, "the end of the agent", func() bool {
		status := podOf(t, c, "closed").Status.ContainerStatuses
		if len(status) > 0 {
			ended = status[0].State.Terminated
		}
		return ended != nil
	})
	if !strings.Contains(ended.Message, "the network leads out of the sandbox: ") {
		t.Errorf("it ends with %+v", ended)
	}
}

// looksOnce waits until the agent has tried to connect to what is outside, and does not any more: in the
// test cluster nothing answers to what its policy refuses at the address of a service.
const looksOnce = `tries() { grep -qE '^ *[0-9]+: [^ ]+ [^ ]+ 02 ' /proc/net/tcp; }
	until tries; do sleep 0.05; done; while tries; do sleep 0.05; done`
