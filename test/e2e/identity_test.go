package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

func TestEachIdentityReachesItsOwnSandboxes(t *testing.T) {
	overEachWay(t, testEachIdentityReachesItsOwnSandboxes)
}

func testEachIdentityReachesItsOwnSandboxes(t *testing.T, c *launchertest.Cluster) {
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := c.Launcher(), c.Launcher()
	theirs.Identity = &identity
	launchers := map[string]*launcher.Kubernetes{"mine": mine, "theirs": theirs}
	images := map[string]bool{}
	for id, l := range launchers {
		put(t, launch(t, l, c.Spec(id)), "file", id)
		images[podOf(t, c, id).Status.ContainerStatuses[0].ImageID] = true
	}
	if len(images) != 1 {
		t.Errorf("the images differ: %v", images)
	}
	for name, l := range launchers {
		for id := range launchers {
			if name == id {
				continue
			}
			if _, err := l.Launch(t.Context(), c.Spec(id)); !errors.Is(err, launcher.ErrOtherKey) {
				t.Errorf("launching the other's sandbox: %v", err)
			}
			_, err := l.Open(t.Context(), id)
			if !errors.Is(err, launcher.ErrOtherKey) {
				t.Errorf("opening the other's sandbox: %v", err)
			}
			for _, l := range launchers {
				if key := l.Identity.AuthorizedKey().Fingerprint(); err != nil && !strings.Contains(err.Error(), key) {
					t.Errorf("%v does not name the key %s", err, key)
				}
			}
		}
	}
}

// The agent itself refuses, also who comes past the launcher's own look.
func TestAgentRefusesAnotherIdentity(t *testing.T) { overEachWay(t, testAgentRefusesAnotherIdentity) }

func testAgentRefusesAnotherIdentity(t *testing.T, c *launchertest.Cluster) {
	s := launch(t, c.Launcher(), c.Spec("mine"))
	other := *c
	var err error
	if other.Identity, err = podapi.NewIdentity(); err != nil {
		t.Fatal(err)
	}
	annotate(t, c, podOf(t, c, "mine").Name, launcher.AnnotationKey, other.Identity.AuthorizedKey().Fingerprint())
	if _, err := other.Launcher().Open(t.Context(), "mine"); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("opening it: %v", err)
	}
	if _, err := other.Launcher().Launch(t.Context(), c.Spec("mine")); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("launching it: %v", err)
	}
	put(t, s, "file", "its own identity still works")
}

// annotate sets an annotation of a pod, whatever else happens to it.
func annotate(t *testing.T, c *launchertest.Cluster, pod, name, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value)
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// An agent that says that it is another pod's is not taken for this one's.
func TestAgentOfAnotherPodIsNotCalled(t *testing.T) { overEachWay(t, testAgentOfAnotherPodIsNotCalled) }

func testAgentOfAnotherPodIsNotCalled(t *testing.T, c *launchertest.Cluster) {
	l := c.Launcher()
	launch(t, l, c.Spec("id"))
	pod := podOf(t, c, "id")
	if err := l.Terminate(t.Context(), "id"); err != nil {
		t.Fatal(err)
	}
	pod.ObjectMeta = metav1.ObjectMeta{Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations}
	pod.Spec.NodeName = ""
	for i, v := range pod.Spec.Containers[0].Env {
		if v.Name == "PODAGENT_POD_UID" {
			pod.Spec.Containers[0].Env[i] = corev1.EnvVar{Name: v.Name, Value: "another"}
		}
	}
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Launch(t.Context(), c.Spec("id")); !errors.Is(err, podapi.ErrWrongPod) {
		t.Errorf("launching it: %v", err)
	}
	if _, err := l.Open(t.Context(), "id"); !errors.Is(err, podapi.ErrWrongPod) {
		t.Errorf("opening it: %v", err)
	}
}

// impostor has got hold of a pod's address, and says that it is the pod's agent.
// It counts the bytes that it was sent.
type impostor struct {
	net.Listener
	asked, bytes atomic.Int64
}

func newImpostor(t *testing.T, podUID string, key podapi.AuthorizedKey) *impostor {
	t.Helper()
	config, err := podapi.AgentTLS(podUID, []podapi.AuthorizedKey{key})
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	i := &impostor{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go i.serve(conn)
		}
	}()
	return i
}

// serve begins as a server of HTTP/2 does, for which a client waits.
func (i *impostor) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}); err == nil {
		i.asked.Add(1)
	}
	n, _ := io.Copy(io.Discard, conn)
	i.bytes.Add(n)
}

// The pod's UID is no secret. What shows it at the pod's address is not taken for
// the agent, if its key is not the one that is seen by the API server.
func TestImpostorAtThePodsAddressIsNotCalled(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	l := c.Launcher()
	open := launch(t, l, c.Spec("a"))
	i := newImpostor(t, string(podOf(t, c, "a").UID), c.Identity.AuthorizedKey())
	l = c.Launcher()
	l.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, i.Addr().String())
	}
	if _, err := l.Open(t.Context(), "a"); !errors.Is(err, podapi.ErrWrongPod) {
		t.Errorf("opening it: %v", err)
	}
	if _, err := l.Launch(t.Context(), c.Spec("a")); !errors.Is(err, podapi.ErrWrongPod) {
		t.Errorf("launching it: %v", err)
	}
	if i.asked.Load() == 0 || i.bytes.Load() > 0 {
		t.Errorf("the impostor was asked %d times, and was sent %d bytes", i.asked.Load(), i.bytes.Load())
	}
	put(t, open, "file", "the agent still works")
}

// By address the API server is asked once for each start of an agent, which needs
// the permission.
func TestKeyAtAnAddressIsLearnedByTheAPIServer(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	g, kubeconfig := newGate(t, c)
	var forwards atomic.Int32
	g.refuse(func(r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			forwards.Add(1)
		}
		return false
	})
	l := &launcher.Kubernetes{Kubeconfig: kubeconfig, Identity: &c.Identity, Connection: launcher.ByAddress}
	s := launch(t, l, c.Spec("a"))
	put(t, s, "file", "x")
	c.KillAgent(t, podUID(t, s))
	await(t, "the agent's next start", func() bool {
		_, err := s.WriteFile(t.Context(), "file", nil, fsops.WriteOptions{})
		return err == nil
	})
	if n := forwards.Load(); n != 2 {
		t.Errorf("two starts took %d port-forwards", n)
	}
	limited := *c
	limited.Orchestrator = c.LimitedAccount(t, "limited", rule("pods", "get", "list", "watch", "create", "patch", "delete"))
	if _, err := limited.Launcher().Open(t.Context(), "a"); !errors.Is(err, launcher.ErrForbidden) || !strings.Contains(err.Error(), "portforward") {
		t.Errorf("without the permission: %v", err)
	}
}
