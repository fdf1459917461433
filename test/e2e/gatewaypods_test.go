package e2e

// The chart's gateway: three replicas in pods, behind their Service.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// gatewayPods are the gateways of a release.
type gatewayPods struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
}

// acmesKeys is a file of keys with one tenant.
func acmesKeys() string {
	return fmt.Sprintf("tenants: {acme: {keys: [{sha256: %x}]}}", sha256.Sum256([]byte(gatewayToken)))
}

// installGateway installs a release with three gateways. They make sandboxes in its other
// namespace, and may connect to nothing that they do not need.
func installGateway(t *testing.T, values ...string) (*release, *gatewayPods) {
	t.Helper()
	r := newRelease(t)
	r.secret(t, "podagent-gateway", acmesKeys())
	args := []string{
		chart, "--set", "gateway.enabled=true,gateway.replicas=3,gateway.image=podagent.test/orchestrator:dev,gateway.keys.key=token",
		"--set", "gateway.settings.connection=address,networkPolicy.address=true,gateway.networkPolicy.egress.create=true",
		"--set", fmt.Sprintf("gateway.networkPolicy.egress.apiServer.ports={%d}", apiServer(t, r.cluster).address.Port()),
		"--set", "gateway.resources.requests.cpu=20m,gateway.settings.requests=cpu=20m\\,memory=32Mi,gateway.settings.image=" + r.cluster.Image,
	}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	r.helm(t, "install", args...)
	return r, &gatewayPods{T: t, client: r.cluster.API(t), namespace: r.namespace}
}

// No command runs twice, no byte is lost or doubled, and what is called done is done, while the
// chart's gateways are killed, and restarted one after the other.
func TestChartsGatewaysAreKilledAndRestartedWhileCallersWork(t *testing.T) {
	t.Parallel()
	release, pods := installGateway(t)
	r := newReplicas(t, pods)
	sandboxes, kills := killSize()
	r.work(sandboxes, func(progress func()) {
		r.killSome(kills/2, progress)
		progress()
		pods.restart(release)
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

// kill kills a pod once another one serves beside it.
func (p *gatewayPods) kill() {
	p.Helper()
	harness.Await(p.T, "the readiness of a second gateway", func() bool { return len(p.addresses()) > 1 })
	pods := p.client.CoreV1().Pods(p.namespace)
	list, err := pods.List(p.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=gateway"})
	if err != nil {
		p.Fatal(err)
	}
	serving := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
	oldest := slices.MinFunc(serving, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if err := pods.Delete(p.Context(), oldest.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		p.Fatal(err)
	}
}
