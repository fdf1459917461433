package e2e

// What tenants of gateways may have.

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// gateways are several gateways over one cluster, with the tenant acme, whose token is a.
type gateways struct {
	*testing.T
	urls []string
}

// newGateways makes gateways. acme is what the tenant's entry begins with, and key what follows its
// key.
func newGateways(t *testing.T, c *launchertest.Cluster, n int, base launcher.Spec, acme, key string) *gateways {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    %s\n    keys:\n    - sha256: %x\n      %s\n", acme, sha256.Sum256([]byte("a")), key)
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := &gateways{T: t}
	base.ID = ""
	for range n {
		handler := gateway.New(gateway.Options{Launcher: c.Launcher(), Tenants: &gateway.Keys{Path: keys}, Base: base, Ledger: leasesOf(c)})
		server := httptest.NewServer(handler)
		t.Cleanup(func() {
			server.Close()
			if err := handler.Close(); err != nil {
				t.Error(err)
			}
		})
		g.urls = append(g.urls, server.URL)
	}
	return g
}

// send sends a request through one of the gateways, and returns the status and the answer.
func (g *gateways) send(i int, method, path, body string) (int, string) {
	req, err := http.NewRequestWithContext(g.Context(), method, g.urls[i%len(g.urls)]+"/api/v1/sandboxes"+path, strings.NewReader(body))
	if err != nil {
		g.Error(err)
		return 0, ""
	}
	req.Header.Set("Authorization", "Bearer a")
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		g.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		g.Error(err)
	}
	return r.StatusCode, string(text)
}

// must sends a request, whose answer must have a status and a text.
func (g *gateways) must(status int, want, method, path, body string) {
	g.Helper()
	if got, text := g.send(0, method, path, body); got != status || !strings.Contains(text, want) {
		g.Errorf("%s %s %s: %d %s\nwant %d %s", method, path, body, got, text, status, want)
	}
}

// smallSpec is of pods with little of everything.
func smallSpec(c *launchertest.Cluster) launcher.Spec {
	spec := c.Spec("")
	spec.Pod.Workspace.Size = resource.MustParse("256Mi")
	spec.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	spec.Pod.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	return spec
}

func TestQuotaIsExactOverThreeGateways(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	g := newGateways(t, c, 3, smallSpec(c), "quota: {sandboxes: 3}", "")
	var mu sync.Mutex
	var made []string
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			id := fmt.Sprint("job-", i)
			status, text := g.send(i, "POST", "", fmt.Sprintf(`{"id":%q}`, id))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case status == 201:
				made = append(made, id)
			case status != 429 || !strings.Contains(text, `"class":"quota_exceeded"`):
				t.Errorf("create: %d %s", status, text)
			}
		})
	}
	all.Wait()
	if len(made) != 3 {
		t.Fatalf("made are %v, want 3", made)
	}
	mustHaveLedgers(t, c)
	g.must(200, "", "POST", "", fmt.Sprintf(`{"id":%q}`, made[0]))
	g.must(429, "there are 3 of 3", "POST", "", `{"id":"more"}`)
	g.must(204, "", "DELETE", "/"+made[0], "")
	g.must(201, "", "POST", "", `{"id":"more"}`)
	mustHaveLedgers(t, c)
}

func TestQuotaSumsWhatPodsHave(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := smallSpec(c)
	spec.Pod.Workspace.StorageClass = c.Storage(t, 2)
	g := newGateways(t, c, 1, spec, `quota: {cpu: 500m, memory: 1Gi, storage: 600Mi}`, "")
	g.must(201, "", "POST", "", `{"id":"kept","keep":true}`)
	g.must(201, "", "POST", "", `{"id":"job-1"}`)
	g.must(429, "the quota of cpu is used up: there are 400m of 500m, and this takes 200m more", "POST", "", `{"id":"job-2"}`)
	g.must(204, "", "POST", "/kept/pause", "")
	g.must(429, "the quota of storage is used up: there are 512Mi of 600Mi, and this takes 256Mi more", "POST", "", `{"id":"job-2"}`)
	g.must(204, "", "DELETE", "/job-1", "")
	g.must(201, "", "POST", "", `{"id":"job-2"}`)
	g.must(200, "", "POST", "/kept/resume", "")
	g.must(200, "", "POST", "", `{"id":"kept","keep":true}`)
	mustHaveLedgers(t, c)

	tight := newGateways(t, c, 1, spec, `quota: {cpu: 300m}`, "")
	tight.must(204, "", "POST", "/kept/pause", "")
	tight.must(429, "there are 200m of 300m, and this takes 200m more", "POST", "/kept/resume", "")
	tight.must(204, "", "DELETE", "/job-2", "")
	tight.must(200, "", "POST", "/kept/resume", "")
}

func TestBudgetCountsLifetimes(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	g := newGateways(t, c, 2, smallSpec(c), "", "budget: {sandbox_hours_per_day: 1}")
	g.must(429, `"class":"budget_exceeded"`, "POST", "", `{"id":"job-1"}`) // which lives for a working day
	g.must(201, "", "POST", "", `{"id":"job-1","lifetime_seconds":600}`)
	mustHaveLedgers(t, c, "ledger.quota.acme")
	g.must(200, "", "POST", "", `{"id":"job-1","lifetime_seconds":600}`)
	g.must(429, `"class":"budget_exceeded"`, "POST", "/job-1/extend", `{"additional_seconds":10800}`)
	g.must(200, "expires_at", "POST", "/job-1/extend", `{"additional_seconds":900}`)
	g.must(204, "", "DELETE", "/job-1", "")
	g.must(404, "", "POST", "/job-1/extend", `{"additional_seconds":900}`)
}
