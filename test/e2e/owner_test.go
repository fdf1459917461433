package e2e

// The owner of a sandbox, and its identity.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestExclusiveHasOneOwner(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Take.Exclusive = true
	var owned atomic.Int32
	var all sync.WaitGroup
	held := make(chan *launcher.Sandbox, 10)
	for i := range cap(held) {
		all.Go(func() {
			k := c.Launcher()
			k.Owner = fmt.Sprint("owner-", i)
			s, err := k.Launch(t.Context(), spec)
			switch {
			case err == nil:
				held <- s
			case errors.Is(err, launcher.ErrOwned) && strings.Contains(err.Error(), `"owner-`):
				owned.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(held) != 1 || owned.Load() != 9 {
		t.Fatalf("%d launches own it, %d learned who does", len(held), owned.Load())
	}
	first := <-held
	if _, err := first.Stat(t.Context(), "."); err != nil {
		t.Error(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := harness.Launch(t, c.Launcher(), spec) // the first owner has released it
	running := second.Command(t.Context(), "sleep", "600")
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}

	// If the lease is taken away, the sandbox must not be used any more.
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	thief := []byte(`{"spec":{"holderIdentity":"thief"}}`)
	if _, err := leases.Patch(t.Context(), podOf(t, c, "a").Name, types.MergePatchType, thief, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the end of the sandbox whose lease is lost", func() bool {
		_, err := second.Stat(t.Context(), ".")
		return errors.Is(err, launcher.ErrOwned)
	})
	// The command is not lost: the next owner can learn its result.
	if err := running.Wait(); !errors.Is(err, launcher.ErrOwned) || errors.Is(err, podapi.ErrAgentLost) || running.Process.Status() != nil {
		t.Errorf("the running command ended with %v, %v", err, running.Process.Status())
	}
	spec.Take.Exclusive = false
	if status := process(t, harness.Launch(t, c.Launcher(), spec), running.ID).Status; status != nil {
		t.Errorf("the command has ended with %v", status)
	}
}

// leasedFor is how long the leases of leaseOf last.
const leasedFor = 10 * time.Minute

// leaseOf makes a lease of the sandbox's pod with this age.
func leaseOf(t *testing.T, c *launchertest.Cluster, id string, age time.Duration) {
	t.Helper()
	pod := podOf(t, c, id)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("somebody"), LeaseDurationSeconds: new(int32(leasedFor / time.Second)), RenewTime: new(metav1.NewMicroTime(time.Now().Add(-age))),
		},
	}
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	if err := leases.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil && age < leasedFor {
		t.Log("there was no lease:", err)
	}
	if _, err := leases.Create(t.Context(), lease, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestExclusiveOwnerThatDiedIsFollowedAfterItsLease(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Env = []string{"WHO=first"}
	first := harness.Launch(t, c.Launcher(), spec)
	leaseOf(t, c, "a", 10*time.Second) // the owner may still be alive
	spec.Take.Exclusive, spec.Env = true, []string{"WHO=second"}
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrOwned) || !strings.Contains(err.Error(), `"somebody"`) {
		t.Errorf("Launch: %v", err)
	}
	// A launch that was refused must not change anything.
	if out, _, _ := harness.Run(t, first, "echo $WHO", nil); out != "first\n" {
		t.Errorf("the environment is that of %q", out)
	}
	leaseOf(t, c, "a", leasedFor+time.Second)
	if out, _, _ := harness.Run(t, harness.Launch(t, c.Launcher(), spec), "echo $WHO", nil); out != "second\n" {
		t.Errorf("the environment is that of %q", out)
	}
}

func TestExclusiveOwnerThatWaitsForItsPodStaysTheOwner(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Take.Exclusive = true
	spec.Pod.Patch = gated(c, "sleep 600")
	first := make(chan error, 1)
	go func() {
		s, err := c.Launcher().Launch(t.Context(), spec)
		if err == nil {
			s.Close()
		}
		first <- err
	}()
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	var lease coordinationv1.Lease
	harness.Await(t, "a renewal", func() bool {
		list, err := leases.List(t.Context(), harness.NoHeartbeats)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) > 0 {
			lease = list.Items[0]
		}
		return len(list.Items) > 0 && lease.Spec.RenewTime.After(lease.Spec.AcquireTime.Time)
	})
	if len(first) > 0 {
		t.Fatalf("the first launch has ended: %v", <-first)
	}
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrOwned) {
		t.Errorf("the second launch: %v", err)
	}
	if marks := podOf(t, c, "a").Annotations; marks[podmeta.AnnotationAdopted] != "" {
		t.Errorf("the refused launch has marked the pod: %v", marks)
	}
	// An owner that loses the lease meanwhile gets an error.
	harness.Await(t, "the theft", func() bool {
		now, err := leases.Get(t.Context(), lease.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		now.Spec.HolderIdentity = new("thief")
		_, err = leases.Update(t.Context(), now, metav1.UpdateOptions{})
		return err == nil
	})
	if err := <-first; !errors.Is(err, launcher.ErrOwned) {
		t.Errorf("the first launch: %v", err)
	}
	// Nobody has adopted the pod, so the launch removes it.
	awaitNoSandbox(t, c)
}

func TestExclusiveOwnerThatLostItsLeaseDeletesNothing(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for id, lose := range map[string]func(pod string) error{
		"taken": func(string) error { leaseOf(t, c, "taken", 0); return nil },
		"taken-and-left": func(pod string) error {
			return c.API(t).CoordinationV1().Leases(c.Namespace).Delete(t.Context(), pod, metav1.DeleteOptions{})
		},
		"held": nil,
	} {
		spec := c.Spec(id)
		spec.Take.Exclusive, spec.OnClose = true, launcher.CloseDelete
		s := harness.Launch(t, c.Launcher(), spec)
		if lose != nil {
			if err := lose(s.PodName()); err != nil {
				t.Fatal(err)
			}
		}
		// On a busy node, the pod may take longer to end than Close waits.
		if err := s.Close(); err != nil && (lose != nil || !errors.Is(err, context.DeadlineExceeded)) {
			t.Errorf("%s: %v", id, err)
		}
		if lose == nil {
			harness.Await(t, "end of the pod that nobody else had", func() bool {
				_, err := c.Launcher().Open(t.Context(), id)
				return errors.Is(err, launcher.ErrNotFound)
			})
		} else if s, err := c.Launcher().Open(t.Context(), id); err != nil {
			t.Errorf("%s: Open: %v", id, err)
		} else {
			s.Close()
		}
	}
}

// The answer to a renewal may be lost, or somebody may label the lease.
func TestExclusiveOwnerStaysWhenItsLeaseIsTouched(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Take.Exclusive = true
	s := harness.Launch(t, c.Launcher(), spec)
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	read := func() *coordinationv1.Lease {
		lease, err := leases.Get(t.Context(), podOf(t, c, "a").Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	lease := read()
	touched := []byte(`{"metadata":{"labels":{"touched":"yes"}}}`)
	if _, err := leases.Patch(t.Context(), lease.Name, types.MergePatchType, touched, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "a renewal", func() bool { return read().Spec.RenewTime.After(lease.Spec.RenewTime.Time) })
	if _, err := s.Stat(t.Context(), "."); err != nil {
		t.Errorf("the owner: %v", err)
	}
	if got := read(); got.Labels["touched"] != "yes" {
		t.Errorf("the label is gone: %v", got.Labels)
	}
}

func TestIdentitySecretIsMadeOnceByManyAtOnce(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	keys := make([]string, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			id, err := launcher.IdentitySecret(t.Context(), c.API(t), c.Namespace, "shared")
			if err != nil {
				t.Error(err)
				return
			}
			keys[i] = id.AuthorizedKey().String()
		})
	}
	all.Wait()
	if len(slices.Compact(keys)) != 1 {
		t.Errorf("there are several keys: %q", keys)
	}
	orchestrator, err := kubernetes.NewForConfig(c.Orchestrator)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := launcher.IdentitySecret(t.Context(), orchestrator, c.Namespace, "shared"); !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("without the permission: %v", err)
	}
}

// An orchestrator in a pod uses the pod's account and namespace, and an identity
// that it shares with others in a Secret.
func TestOrchestratorInThePodOfACluster(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	if err := c.Apply(t.Context(), "../../deploy/identity-rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	spec := c.Spec("outer")
	spec.Pod.ServiceAccount = "podagent-orchestrator"
	outer := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, outer, "orchestrator", string(harness.BuildProgram(t, "cmd/orchestrator")))
	if err := outer.Chmod(t.Context(), "orchestrator", 0o755); err != nil {
		t.Fatal(err)
	}
	script := "./orchestrator up inner --image " + c.Image + " && ./orchestrator exec inner -- echo hello && ./orchestrator list -o json"
	out, errOut, status := harness.Run(t, outer, script, nil)
	if status.Code != 0 || !strings.HasPrefix(out, "inner\nhello\n") {
		t.Fatalf("%+v: %s%s", status, out, errOut)
	}
	// Another orchestrator with the Secret finds the same sandbox.
	other := &launcher.Kubernetes{Config: c.Admin, Namespace: c.Namespace, IdentitySecret: launcher.DefaultIdentitySecret}
	inner, err := other.Open(t.Context(), "inner")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	if out, _, _ := harness.Run(t, inner, "echo again", nil); out != "again\n" {
		t.Errorf("the other got %q", out)
	}
}

func TestLaunchThatIsCancelledAtAnyRequestLeavesNoPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for n := int64(1); ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		k := c.Launcher()
		before(k, nth(n), cancel)
		s, err := k.Launch(ctx, c.Spec("a"))
		cancel()
		if err == nil { // a launch makes fewer requests
			s.Close()
			t.Logf("it was cancelled at %d requests", n-1)
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("at request %d: %v", n, err)
		}
		awaitNoSandbox(t, c)
	}
}

// A pod may disappear while it is being adopted.
func TestLaunchBesideTerminateMakesAnotherPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for range 5 {
		harness.Launch(t, c.Launcher(), c.Spec("a")).Close()
		var both sync.WaitGroup
		both.Go(func() {
			if err := c.Launcher().Terminate(t.Context(), "a"); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			s, err := c.Launcher().Launch(t.Context(), c.Spec("a"))
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
		both.Wait()
	}
}

// A pod may be created although its creation was cancelled.
func TestLaunchThatIsCancelledDuringTheCreationLeavesNoPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for _, told := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		k := c.Launcher()
		cancelled := cancelAtCreation(k, cancel, told)
		if _, err := k.Launch(ctx, c.Spec("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("told of the pod %t: %v", told, err)
		}
		if !cancelled.Load() {
			t.Errorf("told of the pod %t: none was made", told)
		}
		awaitNoSandbox(t, c)
	}
}

// cancelAtCreation ends a launcher's context once a pod has been created. told says
// whether the launcher gets the answer. cancelled is set when that has happened.
func cancelAtCreation(k *launcher.Kubernetes, cancel context.CancelFunc, told bool) (cancelled *atomic.Bool) {
	cancelled = new(atomic.Bool)
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") || cancelled.Load() {
				return next.RoundTrip(r)
			}
			answer, err := next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
			if err != nil || answer.StatusCode != http.StatusCreated {
				return answer, err
			}
			cancelled.Store(true)
			cancel()
			if told {
				return answer, nil
			}
			answer.Body.Close()
			return nil, context.Canceled
		})
	})
	return cancelled
}

func TestReaperThatMayNotAskLeavesBusySandboxes(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("busy")
	spec.Take.Heartbeat = launcher.HeartbeatOff
	s := harness.Launch(t, c.Launcher(), spec)
	if err := s.Command(t.Context(), "sleep", "600").Start(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the container's state", func() bool {
		list, err := c.Launcher().List(t.Context())
		return err == nil && len(list) == 1 && list[0].State == launcher.Running
	})
	k := c.Launcher()
	k.Config = c.LimitedAccount(t, "limited", rule("pods", "get", "list", "watch", "create", "patch", "delete"), leaseRule("list"))
	got, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: time.Nanosecond})
	if len(got) > 0 || !errors.Is(err, launcher.ErrForbidden) || !strings.Contains(err.Error(), "portforward") {
		t.Errorf("Reap: %v, %v", got, err)
	}
	if _, err := s.Stat(t.Context(), "."); err != nil {
		t.Error(err)
	}
}
