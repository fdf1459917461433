package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// requests selects requests for a gate by method and by a part of the path.
func requests(method, path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, path) }
}

// saves selects the requests that save a conversation, except for the first.
var saves = requests(http.MethodPut, "/secrets/podagent-session-")

// clusterHost returns the host on a cluster, behind a gate.
func clusterHost(t *testing.T) (*exampleHost, *launchertest.Cluster, *gate) {
	t.Helper()
	c := sessionCluster(t)
	g, kubeconfig := newGate(t, c)
	h := newExampleHost(t, harness.ProgramFile(t, "pkg/tools/examples/host"), clusterStore(t, c), "-image", c.Image)
	h.env = append(h.env, "KUBECONFIG="+kubeconfig)
	return h, c, g
}

// onlyPod returns the only pod of the namespace.
func onlyPod(t *testing.T, c *launchertest.Cluster) *corev1.Pod {
	t.Helper()
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d pods, %v", len(list.Items), err)
	}
	return &list.Items[0]
}

// outliveLease makes the lease of a killed host look expired.
func outliveLease(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	list, err := leases.List(t.Context(), harness.NoHeartbeats)
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range list.Items {
		lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now().Add(-time.Minute)))
		if _, err := leases.Update(t.Context(), &lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// clusterJob is a job whose host is killed again and again.
type clusterJob struct {
	*exampleHost
	t       *testing.T
	cluster *launchertest.Cluster
	gate    *gate
	pod     types.UID // empty until it is known
}

// kill kills a host. The pod must stay.
func (j *clusterJob) kill(try *hostTry) {
	j.t.Helper()
	try.kill()
	uid := onlyPod(j.t, j.cluster).UID
	if j.pod != "" && uid != j.pod {
		j.t.Fatalf("the pod %s is now %s", j.pod, uid)
	}
	j.pod = uid
}

// killAt starts a try, holds it at the first request of a kind or at its answer,
// and kills it there.
func (j *clusterJob) killAt(where string, after bool, kind func(*http.Request) bool) {
	j.t.Helper()
	reached := j.gate.hold(after, kind)
	try := j.try(j.t)
	try.reaches(where, reached)
	j.kill(try)
	outliveLease(j.t, j.cluster)
}

func TestExampleHostIsKilledAndTriedAgainOnACluster(t *testing.T) {
	t.Parallel()
	h, c, g := clusterHost(t)
	j := &clusterJob{exampleHost: h, t: t, cluster: c, gate: g}
	j.killAt("the launch", false, requests(http.MethodGet, "/portforward"))
	j.killAt("the first save", false, requests(http.MethodPost, "/secrets"))
	j.killAt("the answer to a save", true, saves) // the save is done, but the host does not know it

	try := h.try(t)
	s := openAsHost(t, c, h.job)
	harness.Await(t, "the long command", func() bool {
		steps, err := s.ReadFile(t.Context(), "steps")
		return err == nil && strings.Contains(string(steps), "begun")
	})
	harness.Put(t, s, "witness", "it is the same workspace")
	secondIsToldOfTheFirst(t, h, try)
	j.kill(try)

	// Nobody takes the lease away: a host that waits long enough gets the sandbox.
	try = h.try(t, "-wait", "2m")
	try.logs("msg=calling tool=Bash again=true") // after its first save
	reached := g.hold(false, saves)
	harness.Put(t, s, "go", "")
	try.reaches("the save of the long command's result", reached)
	j.kill(try)
	outliveLease(t, c)

	j.killAt("the save of the edit", false, func(r *http.Request) bool {
		notes, err := s.ReadFile(t.Context(), "notes")
		return saves(r) && err == nil && string(notes) == "one one\n"
	})
	if harness.Get(t, s, "witness") != "it is the same workspace" {
		t.Error("the workspace is another one")
	}
	j.killAt("the end of the pod", false, requests(http.MethodDelete, "/pods/"))

	h.try(t).succeeds()
	h.isWhole(t, editUnknown, "one one")
	harness.Await(t, "the end of the pod and its lease", func() bool { return !hasPodOrLease(t, c) })
	h.forgets(t)
	if n := len(secretsOf(t, c)); n != 0 {
		t.Errorf("%d Secrets are left", n)
	}
}

func hasPodOrLease(t *testing.T, c *launchertest.Cluster) bool {
	t.Helper()
	pods, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leases, err := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), harness.NoHeartbeats)
	if err != nil {
		t.Fatal(err)
	}
	return len(pods.Items)+len(leases.Items) > 0
}

// openAsHost opens the sandbox of a job beside its host, with the identity of
// hosts.
func openAsHost(t *testing.T, c *launchertest.Cluster, job string) *launcher.Sandbox {
	t.Helper()
	l := &launcher.Kubernetes{Config: c.Orchestrator, Namespace: c.Namespace, IdentitySecret: launcher.DefaultIdentitySecret}
	s, err := l.Open(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// secondIsToldOfTheFirst starts a second host for a job that has one.
func secondIsToldOfTheFirst(t *testing.T, h *exampleHost, first *hostTry) {
	t.Helper()
	second := h.try(t)
	if code := second.exits(); code != tryLater {
		t.Errorf("a second host exits with %d", code)
	}
	if text := second.text(); !strings.Contains(text, "another owner") || !strings.Contains(text, fmt.Sprint(first.cmd.Process.Pid)) || strings.Contains(text, "msg=calling") {
		t.Errorf("it does not say that process %d has the job, but:\n%s", first.cmd.Process.Pid, text)
	}
}

// TestExampleHostTellsTheModelThatItsSandboxWasLost deletes the pod between two
// tries.
func TestExampleHostTellsTheModelThatItsSandboxWasLost(t *testing.T) {
	t.Parallel()
	h, c, g := clusterHost(t)
	saved := 0
	reached := g.hold(false, func(r *http.Request) bool {
		if saves(r) {
			saved++
		}
		return saved == 4 // after the call of Read, its answer, and the next message: this is the first command
	})
	try := h.try(t)
	try.reaches("the save of a command", reached)
	try.kill()
	pod := onlyPod(t, c)
	deletePod(t, c, pod.Name)

	try = h.try(t)
	try.logs("msg=launched created=true")
	try.succeeds()
	h.wasToldOfTheLoss(t, 3)
}
