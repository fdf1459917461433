package e2e

// The chart's gateway: three replicas in pods, behind their Service.

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/pkg/gateway/audit"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// gatewayPods are the gateways of a release.
type gatewayPods struct {
	*testing.T
	client    kubernetes.Interface
	auditKey  string // the public half of what signs their audit logs
	namespace string
}

// acmesKeys is a file of keys with one tenant, of which more is said, if it is not empty, after a comma.
func acmesKeys(more string) string {
	return fmt.Sprintf("tenants: {acme: {keys: [{sha256: %x}]%s}}", sha256.Sum256([]byte(gatewayToken)), more)
}

// auditKey puts a new key for an audit log into a Secret, and returns its public half.
func auditKey(t *testing.T, r *release, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.pem")
	err := audit.MakeKey(path)
	if err != nil {
		t.Fatal(err)
	}
	key, err := audit.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.secret(t, secret, string(text))
	return audit.FormatPublicKey(key.Public().(ed25519.PublicKey))
}

// installGateway installs a release with three gateways. They make sandboxes in its other
// namespace, and may connect to nothing that they do not need. This machine is their node.
func installGateway(t *testing.T, values ...string) (*release, *gatewayPods) {
	t.Helper()
	r := newReleaseIn(t, launchertest.OwnCluster(t, launcher.Restricted))
	return r, r.installGateway(t, acmesKeys(""), values...)
}

// installGateway is the function of this name, with a file of keys.
func (r *release) installGateway(t *testing.T, keys string, values ...string) *gatewayPods {
	t.Helper()
	r.secret(t, "podagent-gateway", keys)
	key := auditKey(t, r, "podagent-audit")
	own := *r.cluster
	own.Namespace = r.namespace
	own.Claim(t, r.cluster.Storage(t, 1), "audit")
	args := []string{
		chart, "--set", "gateway.audit.to=claim,gateway.audit.claim=audit,gateway.audit.key.key=token", "--set", "gateway.enabled=true,gateway.replicas=3,gateway.image=podagent.test/orchestrator:dev,gateway.keys.key=token",
		"--set", "gateway.settings.connection=address,networkPolicy.address=true,gateway.networkPolicy.egress.create=true",
		"--set", fmt.Sprintf("gateway.networkPolicy.egress.apiServer.ports={%d}", apiServer(t, r.cluster).address.Port()),
		"--set", "gateway.drainSeconds=10,gateway.resources.requests.cpu=20m,gateway.settings.requests=cpu=20m\\,memory=32Mi,gateway.settings.image=" + r.cluster.Image,
	}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	r.helm(t, "install", args...)
	return &gatewayPods{T: t, client: r.cluster.API(t), namespace: r.namespace, auditKey: key}
}

// No command runs twice, no byte is lost or doubled, and what is called done is done, while the
// chart's gateways are killed, and restarted one after the other. The restart cuts off nothing that
// is answered soon.
func TestChartsGatewaysAreKilledAndRestartedWhileCallersWork(t *testing.T) {
	t.Parallel()
	release, pods := installGateway(t)
	r := newReplicas(t, pods)
	sandboxes, kills := killSize(3)
	r.work(sandboxes, func(progress func()) {
		r.killSome(kills, progress)
		progress()
		r.takeCuts() // by the kills
		pods.restart(release)
		progress()
		if cuts := r.takeCuts(); len(cuts) > 0 {
			t.Errorf("the restart cut off %d requests: %q", len(cuts), cuts)
		}
	})
	pods.checkAudit(release, kills)
}

// checkAudit checks the logs of all gateways that there were, as their operator would: those that
// were killed have a log, too, and those that were restarted have closed theirs.
func (p *gatewayPods) checkAudit(r *release, killed int) {
	p.Helper()
	program := kubectlProgram(p.T, r.cluster)
	harness.Await(p.T, "the end of the gateways that were restarted", func() bool {
		out, err := exec.CommandContext(p.Context(), program, "--kubeconfig", r.cluster.Kubeconfig, "exec", "--namespace", r.namespace,
			"deployment/podagent-gateway", "--", "orchestrator", "audit", "verify", "--key", p.auditKey, "/var/log/podagent").CombinedOutput()
		if err != nil {
			p.Fatalf("%v: %s", err, out)
		}
		if want := fmt.Sprintf("%d chains, 0 broken", 3+killed+3); !strings.Contains(string(out), want) {
			p.Fatalf("there are not %s:\n%s", want, out)
		}
		return strings.Count(string(out), "signed, closed") == 3
	})
}

// restart replaces the pods as an upgrade does: one after the other, each when another one is ready.
func (p *gatewayPods) restart(r *release) {
	p.Helper()
	for _, verb := range []string{"restart", "status"} {
		if err := kubectl(p.T, r.cluster, "rollout", verb, "deployment/podagent-gateway", "--namespace", r.namespace)(); err != nil {
			p.Error(err)
		}
	}
}

// addresses are those that the Service leads to.
func (p *gatewayPods) addresses() (all []string) {
	list, err := p.client.DiscoveryV1().EndpointSlices(p.namespace).List(context.Background(), metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=podagent-gateway",
	})
	if err != nil {
		p.Log(err)
		return nil
	}
	for _, slice := range list.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				all = append(all, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*slice.Ports[0].Port))))
			}
		}
	}
	slices.Sort(all)
	return all
}

// kill kills a gateway as a crash would, once another one serves beside it. Its pod is deleted, so
// that another one replaces it at once.
func (p *gatewayPods) kill() {
	p.Helper()
	harness.Await(p.T, "the readiness of a second gateway", func() bool { return len(p.addresses()) > 1 })
	serving := slices.DeleteFunc(p.pods(), func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
	oldest := slices.MinFunc(serving, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	p.crash(oldest.Name)
}

// pods are those of the gateways, which may be about to begin or to end.
func (p *gatewayPods) pods() []corev1.Pod {
	p.Helper()
	list, err := p.client.CoreV1().Pods(p.namespace).List(p.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=gateway"})
	if err != nil {
		p.Fatal(err)
	}
	return list.Items
}

// crash kills the gateway of a pod, which goes with it.
func (p *gatewayPods) crash(pod string) {
	p.Helper()
	pid := p.processOf(pod)
	err := p.client.CoreV1().Pods(p.namespace).Delete(p.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		p.Fatal(err)
	}
}

// processOf returns the process id of the gateway in a pod.
func (p *gatewayPods) processOf(pod string) int {
	p.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		p.Fatal(err)
	}
	for _, dir := range dirs {
		// If they cannot be read, the process has just ended.
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if bytes.HasPrefix(command, []byte("orchestrator\x00gateway\x00")) && bytes.Contains(env, []byte("HOSTNAME="+pod+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				p.Fatal(err)
			}
			return pid
		}
	}
	p.Fatalf("no gateway of pod %s runs on this machine", pod)
	return 0
}
