package e2e

// Pools under faults that hurt one namespace. Those that hurt the whole cluster are in
// test/e2e/disrupt.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/pool"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestPoolWhoseAgentsAreKilled(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	harness.TestPoolFault(t, c, harness.IsLost, func() {
		killed := 0
		for range 3 {
			killed += c.KillAgents(t, harness.Waiting(t, c))
		}
		if killed == 0 {
			t.Error("no agent was killed")
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

func TestPoolWhosePodsAreEvicted(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	pods := c.API(t).CoreV1().Pods(c.Namespace)
	harness.TestPoolFault(t, c, harness.IsLost, func() {
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		evicted := 0
		for _, pod := range list.Items {
			err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}})
			if err == nil { // else it is gone
				evicted++
			}
		}
		if evicted == 0 {
			t.Error("no pod was evicted")
		}
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
