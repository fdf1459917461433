package disrupt

import (
	"errors"
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestPoolWhileTheAPIServerRestarts(t *testing.T) {
	c := launchertest.DisruptedCluster(t, launcher.Restricted)
	harness.TestPoolFault(t, c, isAway, func() { c.Restart(t, "apiserver") })
}

// isAway reports whether the API server did not answer, or not yet as it should.
func isAway(err error) bool {
	return errors.As(err, new(net.Error)) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) ||
		errors.Is(err, launcher.ErrForbidden) || harness.IsLost(err)
}

// A node that is drained takes no new pods, and evicts those it has.
func TestPoolWhoseNodeIsDrained(t *testing.T) {
	c := launchertest.DisruptedCluster(t, launcher.Restricted)
	noNode := func(err error) bool { return errors.Is(err, launcher.ErrUnschedulable) || harness.IsLost(err) }
	harness.TestPoolFault(t, c, noNode, func() {
		pods, nodes := c.API(t).CoreV1().Pods(c.Namespace), c.API(t).CoreV1().Nodes()
		list, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node := nodeOf(list.Items)
		cordon := func(on bool) {
			patch := fmt.Appendf(nil, `{"spec": {"unschedulable": %t}}`, on)
			if _, err := nodes.Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Error(err)
			}
		}
		cordon(true)
		defer cordon(false)
		for _, pod := range list.Items {
			_ = pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}) // it may be gone
		}
		harness.Await(t, "a launch that finds no node", func() bool {
			s, err := c.Launcher().Launch(t.Context(), harness.Pooled(c, "beyond"))
			if err == nil {
				err = errors.Join(s.Close(), c.Launcher().Terminate(t.Context(), "beyond"))
			}
			return errors.Is(err, launcher.ErrUnschedulable)
		})
	})
}

func nodeOf(pods []corev1.Pod) string {
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			return pod.Spec.NodeName
		}
	}
	return ""
}
