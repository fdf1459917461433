package e2e

// What a tenant of a gateway may ask for, in pods.

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// tenantsOfPolicy are two tenants, whose tokens are their names, with this policy.
func tenantsOfPolicy(t *testing.T, policy string) gateway.Tenants {
	t.Helper()
	text := "tenants:\n"
	for _, tenant := range []string{"acme", "umbra"} {
		text += fmt.Sprintf("  %s:\n    keys: [{sha256: %x}]\n%s\n", tenant, sha256.Sum256([]byte(tenant)), policy)
	}
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &gateway.Keys{Path: path}
}

// tenantCalls are calls of a gateway as one tenant.
type tenantCalls struct {
	*testing.T
	url, token string
}

// send sends a request to a path below the sandboxes, and returns the answer's status and body.
func (c tenantCalls) send(method, path, body string) (status int, answer string) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.url+"/api/v1/sandboxes"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		c.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		c.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// want sends a request, whose answer must have this status.
func (c tenantCalls) want(status int, method, path, body string) string {
	c.Helper()
	got, answer := c.send(method, path, body)
	if got != status {
		c.Errorf("%s: %s %s %s: %d %s, want %d", c.token, method, path, body, got, answer, status)
	}
	return answer
}

// run returns the output of a script.
func (c tenantCalls) run(id, script string) string {
	c.Helper()
	body, err := json.Marshal(map[string]string{"script": script})
	if err != nil {
		c.Fatal(err)
	}
	var ran struct{ Stdout, Stderr string }
	if err := json.Unmarshal([]byte(c.want(200, "POST", "/"+id+"/exec", string(body))), &ran); err != nil {
		c.Fatal(err)
	}
	return ran.Stdout + ran.Stderr
}

func TestTenantsOfAGatewayShareAClaimAndSeeTheirOwnFiles(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Claim(t, c.Storage(t, 1), "shared")
	g := gateway.New(gateway.Options{Launcher: c.Launcher(), Base: c.Spec(""), Tenants: tenantsOfPolicy(t, `
    volumes: [{name: code, claim: shared, prefix: "org/{tenant}/", depth: 1}]
    max: {cpu: 1, memory: 1Gi, lifetime: 1h}`)})
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	acme, umbra := tenantCalls{t, server.URL, "acme"}, tenantCalls{t, server.URL, "umbra"}
	const job = `{"id":"job","cpu":"500m","env":["A=$(PODAGENT_AUTHORIZED_KEY)"],"volumes":[{"name":"code","path":"job","mount":"/code"}]}`
	for _, tenant := range []tenantCalls{acme, umbra} {
		tenant.want(201, "POST", "", job)
		tenant.want(201, "PUT", "/job/files?path=/code/mine", tenant.token+"'s")
	}
	for _, tenant := range []tenantCalls{acme, umbra} {
		if got := tenant.run("job", `cat /code/*; ls -A /code /code/.. | grep -e acme -e umbra; echo "$A"`); got != tenant.token+"'s$(PODAGENT_AUTHORIZED_KEY)\n" {
			t.Errorf("%s sees %q", tenant.token, got)
		}
	}
	checkPaths(acme)
	checkPodOf(t, c, "acme.job")

	acme.want(201, "POST", "", `{"id":"reader","volumes":[{"name":"code","path":"job","mount":"/workspace","read_only":true}]}`)
	if got := acme.want(200, "GET", "/reader/files?path=mine", ""); got != "acme's" {
		t.Errorf("another sandbox of the tenant reads %q", got)
	}
	acme.want(403, "PUT", "/reader/files?path=mine", "x")
}

// checkPaths tries to reach what is not the tenant's.
func checkPaths(c tenantCalls) {
	c.Helper()
	c.run("job", "ln -s ../../umbra/job /code/link; ln -s ../umbra /code/up")
	for path, status := range map[string]int{
		"": 403, "job/link": 403, "job/up": 403, "job/up/job": 403, "a/b": 403,
		"..": 422, "../umbra": 422, "job/../../umbra/job": 422, "/org/umbra/job": 422, "./job": 422, "job/": 422, `job\\..`: 422, `job\u0000`: 422, "$(A)": 422,
	} {
		c.want(status, "POST", "", fmt.Sprintf(`{"id":"evil","volumes":[{"name":"code","path":"%s","mount":"/code"}]}`, path))
	}
	for _, body := range []string{`"image":"alpine"`, `"pool":"x"`, `"cpu":"2"`, `"volumes":[{"name":"shared","mount":"/code"}]`} {
		c.want(403, "POST", "", `{"id":"evil",`+body+`}`)
	}
	c.want(403, "POST", "/job/extend", `{"additional_seconds":3601}`)
	c.want(403, "PUT", "/job/expires", `{"at":"2100-01-01T00:00:00Z"}`)
	c.want(422, "POST", "", `{"id":"evil","volumes":[{"name":"code","path":"job","mount":"/etc"}]}`)
	c.want(404, "GET", "/evil", "")
}

// checkPodOf checks that the bounds of the tenant are the pod's.
func checkPodOf(t *testing.T, c *launchertest.Cluster, id string) {
	t.Helper()
	pods, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if !strings.HasPrefix(pod.Name, strings.ReplaceAll(id, ".", "-")) {
			continue
		}
		r := pod.Spec.Containers[0].Resources
		got := fmt.Sprintf("%s %s %s %s", r.Limits.Cpu(), r.Requests.Cpu(), r.Limits.Memory(), r.Requests.Memory())
		if got != "500m 10m 1Gi 128Mi" || pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s: %s, %+v", pod.Name, got, pod.Spec)
		}
		return
	}
	t.Errorf("there is no pod of %s in %v", id, namesOfPods(pods.Items))
}

func namesOfPods(pods []corev1.Pod) (names []string) {
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return names
}
