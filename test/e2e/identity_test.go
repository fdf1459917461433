package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
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
		harness.Put(t, harness.Launch(t, l, c.Spec(id)), "file", id)
		images[runningPodOf(t, c, id).Status.ContainerStatuses[0].ImageID] = true
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

// The agent itself refuses, even if a caller bypasses the launcher's own check.
func TestAgentRefusesAnotherIdentity(t *testing.T) { overEachWay(t, testAgentRefusesAnotherIdentity) }

func testAgentRefusesAnotherIdentity(t *testing.T, c *launchertest.Cluster) {
	s := harness.Launch(t, c.Launcher(), c.Spec("mine"))
	other := *c
	var err error
	if other.Identity, err = podapi.NewIdentity(); err != nil {
		t.Fatal(err)
	}
	annotate(t, c, podOf(t, c, "mine").Name, podmeta.AnnotationKey, other.Identity.AuthorizedKey().Fingerprint())
	if _, err := other.Launcher().Open(t.Context(), "mine"); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("opening it: %v", err)
	}
	if _, err := other.Launcher().Launch(t.Context(), c.Spec("mine")); !errors.Is(err, podapi.ErrUnauthenticated) {
		t.Errorf("launching it: %v", err)
	}
	harness.Put(t, s, "file", "its own identity still works")
}

// annotate sets an annotation of a pod, even if the pod changes at the same time.
func annotate(t *testing.T, c *launchertest.Cluster, pod, name, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, name, value)
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// An agent that belongs to another pod must not be taken for the agent of this one.
func TestAgentOfAnotherPodIsNotCalled(t *testing.T) { overEachWay(t, testAgentOfAnotherPodIsNotCalled) }

func testAgentOfAnotherPodIsNotCalled(t *testing.T, c *launchertest.Cluster) {
	l := c.Launcher()
	harness.Launch(t, l, c.Spec("id"))
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
