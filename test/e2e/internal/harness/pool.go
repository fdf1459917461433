package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/launcher/pool"
)

// PoolName is the pool that [PoolOf] makes.
const PoolName = "warm"

// PoolOf makes a pool of pods, and waits until so many wait in it.
func PoolOf(t *testing.T, c *launchertest.Cluster, size int) *launcher.Kubernetes {
	t.Helper()
	return makePool(t, c, size, PoolSpec(c))
}

// KeptPoolOf is PoolOf with workspaces that are kept, of so many volumes. It also returns the
// Specs of sandboxes in its pods, by their ids. What change changes is the pool's alone.
func KeptPoolOf(t *testing.T, c *launchertest.Cluster, size, volumes int, change ...func(pods *launcher.Spec)) (*launcher.Kubernetes, func(id string) launcher.Spec) {
	t.Helper()
	kept := launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, volumes)}
	pods := PoolSpec(c)
	pods.Pod.Workspace = kept
	for _, change := range change {
		change(&pods)
	}
	return makePool(t, c, size, pods), func(id string) launcher.Spec {
		spec := Pooled(c, id)
		spec.Pod.Workspace = kept
		return spec
	}
}

func makePool(t *testing.T, c *launchertest.Cluster, size int, pods launcher.Spec) *launcher.Kubernetes {
	t.Helper()
	role := filepath.Join("..", "..", "deploy", "pools-rbac.yaml")
	if _, err := os.Stat(role); err != nil {
		role = filepath.Join("..", role) // from test/e2e/disrupt
	}
	k := c.Launcher()
	err := c.Apply(t.Context(), role)
	if err == nil {
		err = pool.Create(t.Context(), k, PoolName, size, pods)
	}
	if err != nil {
		t.Fatal(err)
	}
	AwaitPool(t, c, size)
	return k
}

// Waiting returns the pods that wait in the pool and run.
func Waiting(t *testing.T, c *launchertest.Cluster) (pods []corev1.Pod) {
	t.Helper()
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelPool + "=" + PoolName})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && isReady(&pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// AwaitPool waits until so many pods wait in the pool.
func AwaitPool(t *testing.T, c *launchertest.Cluster, size int) {
	t.Helper()
	Await(t, fmt.Sprintf("a pool of %d pods", size), func() bool { return len(Waiting(t, c)) == size })
}

// PoolSpec is the Spec of a pool's pods. They request so little that a small node has room for
// all that tests make at once.
func PoolSpec(c *launchertest.Cluster) launcher.Spec {
	spec := c.Spec("")
	spec.Pod.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1m"),
		corev1.ResourceMemory: resource.MustParse("32Mi"),
	}
	return spec
}

// Pooled is the Spec of a sandbox in a pod of the pool.
func Pooled(c *launchertest.Cluster, id string) launcher.Spec {
	spec := PoolSpec(c)
	spec.ID, spec.Take.Pool = id, PoolName
	return spec
}

// SandboxPods returns how many pods of a sandbox stay.
func SandboxPods(t *testing.T, c *launchertest.Cluster, id string) (n int) {
	t.Helper()
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelID + "=" + id})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}
