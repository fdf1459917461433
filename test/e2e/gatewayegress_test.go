package e2e

// The way out of a tenant's sandboxes by the chart's gateways.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// disturbances are what befalls a gateway while it carries a download.
var disturbances = []struct {
	name    string
	disturb func(w *chartsWayOut, gateway corev1.Pod)
	whole   bool // the download has all its bytes
}{
	{"cut", (*chartsWayOut).cutToAgents, false},
	{"drained", (*chartsWayOut).drain, true},
	{"killed", func(w *chartsWayOut, pod corev1.Pod) { w.crash(pod.Name) }, false},
}

// A sandbox whose network leads nowhere reaches by the chart's gateways what its tenant may. Of 256 MiB a
// program gets all bytes or an error, whatever befalls the gateway that carries them, and with the next
// download all of them.
func TestChartsGatewaysLetSandboxesOut(t *testing.T) {
	t.Parallel()
	w := newChartsWayOut(t)
	t.Run("check", func(t *testing.T) { w.on(t).check() })
	t.Run("hosts", func(t *testing.T) { w.on(t).reach() })
	t.Run("metrics", func(t *testing.T) { w.on(t).count() })
	for _, d := range disturbances {
		t.Run(d.name, func(t *testing.T) {
			w := w.on(t)
			gateway, goOn := w.site.hold()
			large := w.download("large-" + d.name)
			d.disturb(w, w.podAt(large.reaches(t, gateway)))
			goOn()
			sum, err := large.end()
			t.Logf("the download ends by %q, %v", sum, err)
			if sum != w.site.sum && (err == nil || d.whole) {
				t.Errorf("the download ends by %q, %v", sum, err)
			}
			harness.Await(t, "the next download", func() bool {
				sum, err := w.download("next-" + d.name).end()
				if err == nil && sum != w.site.sum {
					t.Fatalf("the next download ends by %q", sum)
				}
				return err == nil
			})
		})
	}
	t.Run("audit", func(t *testing.T) { w.on(t).findTries() })
}

// chartsCredential is the value of a credential.
const chartsCredential = "the-value-of-a-credential"

// chartsWayOut is a sandbox that the gateways of a release let out.
type chartsWayOut struct {
	*gatewayPods
	*release
	site, walled *webSite
	sandbox      *launcher.Sandbox // opened beside the gateways
}

// newChartsWayOut installs three gateways, which may connect to a site, and makes a sandbox by them.
func newChartsWayOut(t *testing.T) *chartsWayOut {
	t.Helper()
	r := newReleaseIn(t, launchertest.OwnCluster(t, launcher.Restricted))
	site := newWebSite(t, networkOf(t, r.cluster).BridgeAddress)
	walled := newWebSite(t, site.address.Addr().String()) // where the policy of the gateways does not let them
	rules := []string{"api.test", site.rule("site"), site.rule("large-metrics"), walled.rule("walled")}
	for _, d := range disturbances {
		rules = append(rules, site.rule("large-"+d.name), site.rule("next-"+d.name))
	}
	allowed, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	keys := acmesKeys(fmt.Sprintf(`, egress: {mode: network, require: network, allow_hosts: %s,
		credentials: [{name: API_KEY, hosts: [api.test], value_file: /etc/podagent/credentials/token}]}`, allowed))
	r.secret(t, "podagent-links", strings.Repeat("secret", 6))
	r.secret(t, "credentials", chartsCredential)
	const to = "gateway.networkPolicy.egress.more[0]."
	pods := r.installGateway(
		t, keys, "gateway.linkKeys.secret=podagent-links,gateway.linkKeys.key=token,gateway.credentials.secret=credentials",
		fmt.Sprintf(to+"to[0].ipBlock.cidr=%s/32,"+to+"ports[0].port=%d", site.address.Addr(), site.address.Port()),
	)
	w := &chartsWayOut{gatewayPods: pods, release: r, site: site, walled: walled}
	tenantCalls{t, newReplicas(t, pods).url, gatewayToken}.want(201, "POST", "", `{"id":"job-1"}`)
	k := &launcher.Kubernetes{Config: r.cluster.Admin, Namespace: r.sandboxes, IdentitySecret: r.namespace + "/" + launcher.DefaultIdentitySecret}
	s, err := k.Open(t.Context(), inPod("job-1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w.sandbox = s
	return w
}

// on returns it for another test.
func (w *chartsWayOut) on(t *testing.T) *chartsWayOut {
	pods, own := *w.gatewayPods, *w
	pods.T, own.gatewayPods = t, &pods
	return &own
}

// check runs the check of a gateway in a pod of one.
func (w *chartsWayOut) check() {
	w.Helper()
	deployment, err := w.client.AppsV1().Deployments(w.gatewayPods.namespace).Get(w.Context(), "podagent-gateway", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	args := append([]string{
		"--kubeconfig", w.cluster.Kubeconfig, "exec", "--namespace", w.gatewayPods.namespace,
		"deployment/podagent-gateway", "--", "orchestrator", "gateway", "--check", "-o", "json",
	}, deployment.Spec.Template.Spec.Containers[0].Args...)
	out, err := exec.CommandContext(w.Context(), kubectlProgram(w.T, w.cluster), args...).CombinedOutput()
	w.Logf("%s", out)
	if err != nil {
		w.Errorf("the check of a gateway: %v", err)
	}
	for _, check := range []string{"ways out", "way out of the sandbox"} {
		if !bytes.Contains(out, fmt.Appendf(nil, `{"check":%q,"verdict":"ok"`, check)) {
			w.Errorf("the check of a gateway does not find in order: %s", check)
		}
	}
}

// reach tries to reach a host that is allowed, one that is not, and one to which the gateways themselves
// may not connect.
func (w *chartsWayOut) reach() {
	w.Helper()
	for script, want := range map[string]string{
		w.site.get("site", "/"):     "hello",
		w.site.get("evil", "/"):     "no rule allows evil.test",
		w.walled.get("walled", "/"): "502",
	} {
		out, err := w.sandbox.Command(w.Context(), "bash", "-c", script+" && cat <&3").CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			w.Errorf("%v, %q, want %q", err, out, want)
		}
	}
	out, err := w.sandbox.Command(w.Context(), "sh", "-c", `echo "$API_KEY"`).Output()
	if err != nil || len(out) < len(chartsCredential) || strings.Contains(string(out), chartsCredential) {
		w.Errorf("it has the credential %q, %v, want a placeholder", out, err)
	}
}

// podAt returns the gateway's pod with an address.
func (w *chartsWayOut) podAt(address string) corev1.Pod {
	w.Helper()
	pods := w.pods()
	at := slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Status.PodIP == address })
	if at < 0 {
		w.Fatalf("no gateway has the address %s", address)
	}
	return pods[at]
}

// drain has a gateway end as an upgrade does.
func (w *chartsWayOut) drain(pod corev1.Pod) {
	w.Helper()
	if err := w.client.CoreV1().Pods(pod.Namespace).Delete(w.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		w.Fatal(err)
	}
}

// findTries checks that the audit logs have each download.
func (w *chartsWayOut) findTries() {
	w.Helper()
	claim, err := w.client.CoreV1().PersistentVolumeClaims(w.gatewayPods.namespace).Get(w.Context(), "audit", metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	volume, err := w.client.CoreV1().PersistentVolumes().Get(w.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(volume.Spec.Local.Path, "*.jsonl"))
	if err != nil {
		w.Fatal(err)
	}
	tries := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			w.Fatal(err)
		}
		for each := range bytes.Lines(text) {
			var l struct{ Type, Tenant, Sandbox, Verdict, To string }
			if json.Unmarshal(each, &l) == nil && l.Type == "try" && l.Tenant == "acme" && l.Sandbox == "job-1" {
				tries[l.Verdict+" "+l.To] = true
			}
		}
	}
	want := []string{"allowed site.test", "denied evil.test", "failed walled.test", "allowed large-metrics.test"}
	for _, d := range disturbances {
		want = append(want, "allowed large-"+d.name+".test", "allowed next-"+d.name+".test")
	}
	for _, try := range want {
		if !tries[try] {
			w.Errorf("no log has %q: %v", try, tries)
		}
	}
}
