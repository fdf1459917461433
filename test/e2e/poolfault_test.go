package e2e

// Pools under faults that hurt one namespace. Those that hurt the whole cluster are in
// test/e2e/disrupt.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/pool"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestPoolWhoseAgentsAreKilled(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	harness.TestPoolFault(t, c, harness.IsLost, func() {
		for range 3 {
			harness.Await(t, "an agent that waits and is killed", func() bool { return c.KillAgents(t, harness.Waiting(t, c)) > 0 })
		}
	})
}

func TestPoolThatIsScaledAndChanged(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.TestPoolFault(t, c, harness.IsLost, func() {
		for i := range 3 {
			spec := harness.PoolSpec(c)
			spec.Pod.Annotations = map[string]string{"round": fmt.Sprint(i)}
			err := errors.Join(
				pool.Scale(t.Context(), c.Launcher(), harness.PoolName, 0),
				pool.Create(t.Context(), c.Launcher(), harness.PoolName, 4, spec),
			)
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// Whoever shrinks or changes a pool does not harm the launches under way. The cluster may be
// late to delete a pod that a launch has taken, but it never leaves a sandbox with two.
func TestPoolThatShrinksAndChangesMeanwhile(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 3)
	var warm sync.Map // the ids of sandboxes out of the pool
	launching, over := context.WithCancel(t.Context())
	go func() {
		defer over()
		for round := range 3 {
			launchFromChangingPool(t, c, round, &warm)
		}
	}()
	changePool(launching, t, c, k)
	for round := range 3 {
		for i := range 4 {
			id := fmt.Sprintf("s-%d-%d", round, i)
			_, mayGo := warm.Load(id)
			if n := harness.SandboxPods(t, c, id); n > 1 || n == 0 && !mayGo {
				t.Errorf("sandbox %s has %d pods", id, n)
			}
		}
	}
}

// changePool shrinks a pool and changes its template, each time as soon as a pod of the last
// template runs, while launches go on.
func changePool(launching context.Context, t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes) {
	t.Helper()
	defer func() { <-launching.Done() }()
	for i := 0; launching.Err() == nil; i++ {
		spec, round := harness.PoolSpec(c), fmt.Sprint(i)
		spec.Pod.Annotations = map[string]string{"round": round}
		if err := errors.Join(pool.Scale(t.Context(), k, "warm", i%3), pool.Create(t.Context(), k, "warm", 3, spec)); err != nil {
			t.Fatal(err)
		}
		harness.Await(t, "a pod of the changed pool", func() bool {
			return launching.Err() != nil || slices.ContainsFunc(harness.Waiting(t, c), func(pod corev1.Pod) bool { return pod.Annotations["round"] == round })
		})
	}
}

// launchFromChangingPool launches four sandboxes at once. A sandbox out of the pool may end, and
// no other.
func launchFromChangingPool(t *testing.T, c *launchertest.Cluster, round int, warm *sync.Map) {
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			s, err := c.Launcher().Launch(t.Context(), harness.Pooled(c, fmt.Sprintf("s-%d-%d", round, i)))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if s.Start.Warm {
				warm.Store(s.ID, true)
			}
			err = s.Command(t.Context(), "true").Run()
			if err != nil && !(isEvicted(err) && s.Start.Warm) {
				t.Errorf("%s, %+v: %v", s.ID, s.Start, err)
			}
		})
	}
	all.Wait()
}

// isEvicted reports whether a command ended with its pod: the agent of a pod that is to end ends its commands.
func isEvicted(err error) bool {
	e, ok := errors.AsType[*podapi.ExitError](err)
	return harness.IsLost(err) || ok && e.Signal == int(syscall.SIGTERM)
}

func TestPoolWhosePodsAreEvicted(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	pods := c.API(t).CoreV1().Pods(c.Namespace)
	harness.TestPoolFault(t, c, isEvicted, func() {
		harness.Await(t, "a pod that is evicted", func() bool {
			list, err := pods.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			evicted := false
			for _, pod := range list.Items {
				err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}})
				evicted = evicted || err == nil // else it is gone
			}
			return evicted
		})
	})
}

// Launches beyond the quota are rejected, and say so.
func TestPoolInANamespaceWhoseQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	quotas := c.API(t).CoreV1().ResourceQuotas(c.Namespace)
	rejected := func(err error) bool { return errors.Is(err, launcher.ErrRejected) || harness.IsLost(err) }
	harness.TestPoolFault(t, c, rejected, func() {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")},
		}}
		if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		spec := c.Spec("beyond") // fits no pod of the pool
		spec.Workdir = "/elsewhere"
		harness.Await(t, "a launch that is rejected", func() bool {
			s, err := c.Launcher().Launch(t.Context(), spec)
			if err == nil {
				err = errors.Join(s.Close(), c.Launcher().Terminate(t.Context(), "beyond"))
			}
			return errors.Is(err, launcher.ErrRejected)
		})
		harness.Await(t, "a pool that says why it is not full", func() bool {
			d, err := pool.Describe(t.Context(), c.Launcher(), harness.PoolName)
			return err == nil && strings.Contains(d.Problem, "exceeded quota")
		})
		if err := quotas.Delete(t.Context(), "pods", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}
