package e2e

// If a pod cannot become a sandbox, the launch fails with a specific error, soon
// after the cluster knows.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// badPod is a pod that cannot become a sandbox.
type badPod struct {
	name   string
	class  error
	says   string
	warned bool // the error must include the cluster's warnings
	set    func(t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, spec *launcher.Spec)
}

// badSpecs are pods that fail because of their Spec.
func badSpecs() []badPod {
	return []badPod{
		{
			name: "an image that does not exist", class: launcher.ErrImage, says: "no-such-image", warned: true,
			set: func(_ *testing.T, _ *launchertest.Cluster, _ *launcher.Kubernetes, spec *launcher.Spec) {
				spec.Pod.Image = "registry.invalid/no-such-image:1"
			},
		},
		{
			name: "a name that no image can have", class: launcher.ErrImage, says: "must be lowercase",
			set: func(_ *testing.T, _ *launchertest.Cluster, _ *launcher.Kubernetes, spec *launcher.Spec) {
				spec.Pod.Image = "UPPER/case"
			},
		},
		{
			name: "an image without podagent", class: launcher.ErrCannotStart, says: "podagent",
			set: func(_ *testing.T, _ *launchertest.Cluster, _ *launcher.Kubernetes, spec *launcher.Spec) {
				spec.Pod.Image = "podagent.test/pause:1"
			},
		},
		{
			name: "a pod that no node can hold", class: launcher.ErrUnschedulable, says: "Insufficient memory", warned: true,
			set: func(_ *testing.T, _ *launchertest.Cluster, _ *launcher.Kubernetes, spec *launcher.Spec) {
				spec.Pod.Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("64Ti")}
			},
		},
		{
			name: "a profile that the namespace does not admit", class: launcher.ErrRejected, says: "PodSecurity",
			set: func(_ *testing.T, _ *launchertest.Cluster, _ *launcher.Kubernetes, spec *launcher.Spec) {
				spec.Pod.Profile = launcher.Baseline
			},
		},
		{
			name: "a ready timeout that is too short", class: launcher.ErrNotReady, says: "after 1ms",
			set: func(_ *testing.T, _ *launchertest.Cluster, _ *launcher.Kubernetes, spec *launcher.Spec) {
				spec.Take.ReadyTimeout = time.Millisecond
			},
		},
	}
}

// badClusters are pods that fail because of objects in the cluster.
func badClusters() []badPod {
	return []badPod{
		{
			name: "a quota", class: launcher.ErrRejected, says: "exceeded quota",
			set: func(t *testing.T, c *launchertest.Cluster, _ *launcher.Kubernetes, _ *launcher.Spec) {
				quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}}
				if _, err := c.API(t).CoreV1().ResourceQuotas(c.Namespace).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				harness.Await(t, "the quota", func() bool {
					q, err := c.API(t).CoreV1().ResourceQuotas(c.Namespace).Get(t.Context(), "none", metav1.GetOptions{})
					return err == nil && len(q.Status.Hard) > 0
				})
			},
		},
		{
			name: "a permission that is missing", class: launcher.ErrForbidden, says: "create",
			set: func(t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, _ *launcher.Spec) {
				k.Config = c.LimitedAccount(t, "limited", rule("pods", "get", "list", "watch"), leaseRule("get"))
			},
		},
		{
			name: "no permission to port-forward", class: launcher.ErrForbidden, says: "portforward",
			set: func(t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, _ *launcher.Spec) {
				k.Config = c.LimitedAccount(t, "limited", rule("pods", "get", "list", "watch", "create", "patch", "delete"), leaseRule("get"))
			},
		},
		{
			name: "a namespace that is not there", class: launcher.ErrNoNamespace, says: "not-there",
			set: func(_ *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, _ *launcher.Spec) {
				k.Config, k.Namespace = c.Admin, "not-there"
			},
		},
		{
			name: "a pod of that name that is not ours", class: launcher.ErrNotOurs, says: podmeta.LabelManagedBy,
			set: func(t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, spec *launcher.Spec) {
				harness.Launch(t, k, *spec)
				pod := podOf(t, c, spec.ID)
				patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, podmeta.LabelManagedBy)
				if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a pod that was made with another key", class: launcher.ErrOtherKey, says: "SHA256:",
			set: func(t *testing.T, _ *launchertest.Cluster, k *launcher.Kubernetes, spec *launcher.Spec) {
				harness.Launch(t, k, *spec)
				other, err := podapi.NewIdentity()
				if err != nil {
					t.Fatal(err)
				}
				*k = launcher.Kubernetes{Config: k.Config, Namespace: k.Namespace, Identity: &other}
			},
		},
	}
}

// A launch fails as soon as the cluster knows the reason. It does not wait until
// the pod's time is over.
func TestPodThatCannotBeASandboxHasItsOwnError(t *testing.T) {
	t.Parallel()
	for _, tt := range slices.Concat(badSpecs(), badClusters()) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			k, spec := c.Launcher(), c.Spec("a")
			spec.Take.ReadyTimeout = 2 * harness.Hung
			tt.set(t, c, k, &spec)
			ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
			defer cancel()
			_, err := k.Launch(ctx, spec)
			pod, ok := errors.AsType[*launcher.PodError](err)
			if !ok || !errors.Is(err, tt.class) || !strings.Contains(err.Error(), tt.says) {
				t.Fatalf("Launch: %v (a PodError: %v)", err, ok)
			}
			t.Log(err)
			if tt.warned && len(pod.Events) == 0 {
				t.Error("the error has none of the cluster's warnings")
			}
		})
	}
}

func TestPodDeletedUnderAnOpenSandboxHasItsOwnError(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	s := harness.Launch(t, c.Launcher(), c.Spec("a"))
	cmd := s.Command(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	name := podOf(t, c, "a").Name
	deletePod(t, c, name)
	harness.Await(t, "the end of the pod", func() bool {
		_, err := c.API(t).CoreV1().Pods(c.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	err := <-ended // the command gets TERM before the agent ends, so the agent can usually report its end
	if exit, told := errors.AsType[*podapi.ExitError](err); (!told || exit.Signal != int(syscall.SIGTERM)) && !errors.Is(err, podapi.ErrAgentLost) {
		t.Errorf("the running command ended with %v", err)
	}
	harness.Await(t, "the error", func() bool {
		_, err := s.Stat(t.Context(), ".")
		return errors.Is(err, launcher.ErrGone)
	})
	// Another pod with that name is another sandbox.
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	if _, err := s.Stat(t.Context(), "."); !errors.Is(err, launcher.ErrGone) {
		t.Errorf("the old sandbox reaches the new pod: %v", err)
	}
}

// If a pod is replaced while there are no calls, the next call says that the
// sandbox is gone, not that the agent is the wrong one.
func TestPodThatIsReplacedUnderAnOpenSandboxIsGone(t *testing.T) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		spec := c.Spec("a")
		spec.Take.Heartbeat = launcher.HeartbeatOff
		s := harness.Launch(t, c.Launcher(), spec)
		cmd := s.Command(t.Context(), "true")
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		if err := c.Launcher().Terminate(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if next := harness.Launch(t, c.Launcher(), spec); !next.Created {
			t.Error("the pod was not replaced")
		}
		for range 2 {
			if _, err := s.Stat(t.Context(), "."); !errors.Is(err, launcher.ErrGone) {
				t.Errorf("a call: %v", err)
			}
		}
	})
}

func rule(resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}
}

func leaseRule(verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: verbs}
}

// A launch that fails late, after its heartbeat has begun, removes what it created,
// and nothing else.
func TestLaunchWhoseSourceFailsLeavesNoPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Git = &launcher.Git{URL: "/no/such/repository"}
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.As(err, new(*launcher.GitError)) {
		t.Fatalf("Launch: %v", err)
	}
	awaitNoSandbox(t, c)
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.As(err, new(*launcher.GitError)) {
		t.Fatalf("Launch: %v", err)
	}
	if list, err := c.Launcher().List(t.Context()); err != nil || len(list) != 1 || list[0].State == launcher.Terminating {
		t.Errorf("the existing sandboxes are %v, %v", list, err)
	}
}
