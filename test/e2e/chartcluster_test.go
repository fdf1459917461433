package e2e

// Releases of the chart, in a real cluster.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// newRelease returns a release that is not installed yet, in a new namespace that
// enforces the restricted standard. The cluster's own namespace already has the
// objects of the chart. The release makes the namespace of the sandboxes.
func newRelease(t *testing.T) *release {
	t.Helper()
	return newReleaseIn(t, launchertest.NewCluster(t, launcher.Restricted))
}

func newReleaseIn(t *testing.T, c *launchertest.Cluster) *release {
	t.Helper()
	r := &release{cluster: c}
	r.namespace, r.sandboxes = r.cluster.Namespace+"-chart", r.cluster.Namespace+"-chart-sandboxes"
	_, err := r.cluster.API(t).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: r.namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": string(launcher.Restricted)},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.deletesAtTheEnd(t, r.namespace)
	r.deletesAtTheEnd(t, r.sandboxes)
	return r
}

func (r *release) deletesAtTheEnd(t *testing.T, namespace string) {
	t.Cleanup(func() {
		err := r.cluster.API(t).CoreV1().Namespaces().Delete(context.Background(), namespace, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// secret creates a Secret with the one key token in the release's namespace.
func (r *release) secret(t *testing.T, name, token string) {
	t.Helper()
	_, err := r.cluster.API(t).CoreV1().Secrets(r.namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"token": token},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// as returns the cluster with the rights of the chart's account, for sandboxes in
// their namespace.
func (r *release) as(t *testing.T, way launcher.Connection) *launchertest.Cluster {
	t.Helper()
	// Pods are not admitted before the controller has created the default account.
	harness.Await(t, "the namespace's default account", func() bool {
		_, err := r.cluster.API(t).CoreV1().ServiceAccounts(r.sandboxes).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	c := *r.cluster
	c.Namespace, c.Connection = r.namespace, way
	var err error
	if c.Orchestrator, err = c.Account(t.Context(), "podagent-orchestrator"); err != nil {
		t.Fatal(err)
	}
	c.Namespace = r.sandboxes
	awaitRights(t, &c)
	return &c
}

// noWait is for a claim, which may not get a volume until a pod needs it.
const noWait = "--wait=hookOnly"

func TestChartInstallsUpgradesAndUninstalls(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	class := r.cluster.Storage(t, 1)
	r.secret(t, "podagent-mcp", mcpToken)
	r.secret(t, "commands", mcpSecret)
	r.secret(t, "gateway-keys", acmesKeys(""))
	r.secret(t, "gateway-links", strings.Repeat("secret", 6))
	r.secret(t, "gateway-credentials", "a-token-of-acmes")
	r.secret(t, "gateway-host-key", newSSHKey(t).private)
	auditKey(t, r, "gateway-audit")

	r.helm(t, "install", chart)
	c := r.as(t, launcher.ByPortForward)
	first := harness.Launch(t, c.Launcher(), c.Spec("a"))
	harness.Put(t, first, "file", "x")
	if out, _, _ := harness.Run(t, first, "cat file; id -u", nil); out != "x1000\n" {
		t.Errorf("inside: %q", out)
	}
	if may(t, c, "create pods/exec") {
		t.Error("by default the account may exec in pods")
	}

	// The API server is not where the values say, and nothing here knows PodMonitors.
	r.helm(t, "upgrade", chart, "--values", everything, "--set", "gateway.networkPolicy.egress.create=false,gateway.podMonitor.create=false,claim.storageClass="+class, noWait)
	checkEverything(t, r)

	r.helm(t, "uninstall")
	if _, err := r.cluster.API(t).RbacV1().Roles(r.sandboxes).Get(t.Context(), "podagent-exec", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Role outlives the release: %v", err)
	}
	r.helm(t, "install", chart, "--set", "claim.create=true,claim.size=1Gi,claim.accessModes={ReadWriteOnce},claim.storageClass="+class, noWait)
	again, err := r.as(t, launcher.ByPortForward).Launcher().Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := harness.Get(t, again, "file"); got != "x" {
		t.Errorf("the sandbox that outlived the release has %q", got)
	}
	if got := harness.Get(t, harness.Launch(t, r.as(t, launcher.ByPortForward).Launcher(), tenantOfChart(c)), "/workspace/mine"); got != "acme's" {
		t.Errorf("the claim that outlived the release has %q", got)
	}
}

// checkEverything checks that everything that was turned on affects sandboxes.
func checkEverything(t *testing.T, r *release) {
	t.Helper()
	byExec := r.as(t, launcher.ByExec)
	for _, server := range []string{"deployment/podagent-mcp", "deployment/podagent-gateway"} {
		if err := kubectl(t, byExec, "rollout", "status", server, "--namespace", r.namespace, "--timeout", harness.Hung.String())(); err != nil {
			t.Error(err)
		}
	}
	if !may(t, byExec, "create pods/exec") {
		t.Error("rbac.exec does not let the account exec in pods")
	}
	tenant := harness.Launch(t, byExec.Launcher(), tenantOfChart(byExec))
	harness.Put(t, tenant, "mine", "acme's")
	if pod := podOf(t, byExec, "tenant"); pod.Spec.Containers[0].Resources.Limits.Memory().IsZero() {
		t.Error("the LimitRange gave the pod no limit")
	}
	for _, e := range podOf(t, byExec, "tenant").Spec.Volumes {
		if e.PersistentVolumeClaim != nil && e.PersistentVolumeClaim.ClaimName == "podagent-tenants" {
			terminate(t, byExec.Launcher(), "tenant")
			return
		}
	}
	t.Error("the sandbox is not on the chart's claim")
}

// noMemoryLimit leaves the limit of memory to the namespace's LimitRange.
var noMemoryLimit = corev1.ResourceList{corev1.ResourceMemory: resource.Quantity{}}

// tenantOfChart returns the Spec of a sandbox on the chart's claim.
func tenantOfChart(c *launchertest.Cluster) launcher.Spec {
	spec := c.Spec("tenant")
	spec.Pod.Volumes = []launcher.Volume{{Claim: "podagent-tenants", SubPath: "acme/workspace", Path: "/workspace"}}
	spec.Pod.Resources.Limits = noMemoryLimit
	return spec
}

func TestChartsReaperDeletesWhatNobodyNeeds(t *testing.T) {
	t.Parallel()
	r := newRelease(t)
	r.helm(t, "install", chart, "--set", "reaper.create=true,reaper.staleAfter=1s,reaper.schedule=@yearly,reaper.image=podagent.test/orchestrator:dev")
	c := r.as(t, launcher.ByPortForward)
	k := &launcher.Kubernetes{Config: c.Admin, Namespace: r.sandboxes, IdentitySecret: r.namespace + "/" + launcher.DefaultIdentitySecret}
	spec := c.Spec("forgotten")
	spec.Take.Heartbeat = launcher.HeartbeatOff
	harness.Launch(t, k, spec)
	pods := c.API(t).CoreV1().Pods(r.sandboxes)
	for run := 0; ; run++ {
		r.reap(t, fmt.Sprintf("reap-%d", run))
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 || list.Items[0].DeletionTimestamp != nil {
			return
		}
		// It was idle for less than a second when the reaper asked.
	}
}

// reap runs a job of the reaper to its end.
func (r *release) reap(t *testing.T, name string) {
	t.Helper()
	if err := kubectl(t, r.cluster, "create", "job", name, "--from=cronjob/podagent-reaper", "--namespace", r.namespace)(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the end of the reaper", func() bool {
		job, err := r.cluster.API(t).BatchV1().Jobs(r.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && job.Status.Failed > 0 {
			t.Fatalf("the reaper failed: %+v", job.Status.Conditions)
		}
		return err == nil && job.Status.Succeeded > 0
	})
}
