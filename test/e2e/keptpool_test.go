package e2e

// Sandboxes in pods that waited for them, whose files outlive those pods.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/launcher/pool"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestWarmSandboxKeepsItsFilesWhenItIsPaused(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 3)
	spec := specOf("a")
	spec.Env, spec.Protected = []string{"GREETING=hi"}, []string{"go.mod"}
	s := launchWarm(t, k, spec)
	harness.Put(t, s, "file", "kept")
	wantState(t, k, "a", launcher.Running)
	pause(t, k, s)
	wantState(t, k, "a", launcher.Paused)
	resumed, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantFilesAndSettings(t, resumed)
	wantState(t, k, "a", launcher.Running)
	if d, err := k.Describe(t.Context(), "a"); err != nil || d.Bounds["workspace"] != "that of its claim" || len(d.Problems) > 0 {
		t.Errorf("it is described as %+v: %v", d, err)
	}
	pause(t, k, resumed)
	for _, name := range []string{spec.Take.Pool, "without-pods"} {
		spec.Take.Pool = name
		again := harness.Launch(t, k, spec)
		if again.Created || again.Start.Warm || !strings.Contains(again.Start.Cold, "its files are there already") || len(again.Drift) > 0 {
			t.Errorf("with the pool %s: created %v, start %+v, drift %q", name, again.Created, again.Start, again.Drift)
		}
		wantFilesAndSettings(t, again)
		pause(t, k, again)
	}
	plain := spec
	plain.Pod.Workspace = launcher.Workspace{}
	if _, err := k.Launch(t.Context(), plain); !errors.Is(err, launcher.ErrPaused) {
		t.Errorf("a launch that would not have the files: %v", err)
	}
	terminate(t, k, "a")
	awaitNothingOf(t, c, "a")
}

// pause closes a sandbox and pauses it.
func pause(t *testing.T, k *launcher.Kubernetes, s *launcher.Sandbox) {
	t.Helper()
	if err := errors.Join(s.Close(), k.Pause(t.Context(), s.ID)); err != nil {
		t.Fatal(err)
	}
}

// wantFilesAndSettings expects the file that was kept, and what the launch has set, in a pod of
// the id's own name.
func wantFilesAndSettings(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	wantKept(t, s)
	if out, _, _ := harness.Run(t, s, "echo $GREETING", nil); out != "hi\n" {
		t.Errorf("a command prints %q", out)
	}
	if err := s.WriteFile(t.Context(), "go.mod", nil, 0o600); !errors.Is(err, fsops.ErrProtected) || s.PodName() != podmeta.NameOf(s.ID) {
		t.Errorf("writing a protected path in pod %s: %v", s.PodName(), err)
	}
}

// wantState expects that a sandbox is listed once, soon in a state, and can be described. The
// kubelet says a little late that a container runs.
func wantState(t *testing.T, k *launcher.Kubernetes, id string, want launcher.State) {
	t.Helper()
	harness.Await(t, fmt.Sprintf("a list of %s, %s", id, want), func() bool {
		list, err := k.List(t.Context())
		if err != nil || len(list) != 1 || list[0].ID != id {
			t.Fatalf("the list is %+v, want %s once: %v", list, id, err)
		}
		return list[0].State == want
	})
	if d, err := k.Describe(t.Context(), id); err != nil || d.State != want || len(d.Problems) > 0 {
		t.Errorf("it is described as %s, want %s, with %v: %v", d.State, want, d.Problems, err)
	}
}

// awaitNothingOf waits until no pods, claims and leases of a sandbox are left.
func awaitNothingOf(t *testing.T, c *launchertest.Cluster, id string) {
	t.Helper()
	name := podmeta.NameOf(id)
	harness.Await(t, "the end of all objects of "+id, func() bool {
		ours := metav1.ListOptions{LabelSelector: podmeta.LabelManagedBy + "=" + podmeta.ManagedBy}
		pods, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), ours)
		claims, claimErr := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).List(t.Context(), ours)
		leases, leaseErr := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), ours)
		if err := errors.Join(err, claimErr, leaseErr); err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, pod := range pods.Items {
			if pod.Annotations[podmeta.AnnotationID] == id {
				left++
			}
		}
		for _, claim := range claims.Items {
			if claim.Annotations[podmeta.AnnotationID] == id {
				left++
			}
		}
		for _, lease := range leases.Items { // those of floors name their claim
			if strings.Contains(lease.Name, name) || strings.HasSuffix(lease.Name, ".note") {
				left++
			}
		}
		return left == 0
	})
}

// What ends a pod does not end the files.
func TestWarmSandboxKeepsItsFilesWhenItsPodEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox){
		"evicted": func(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox) {
			err := c.API(t).CoreV1().Pods(c.Namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: s.PodName()}})
			if err != nil {
				t.Fatal(err)
			}
			harness.Await(t, "the pod's end", func() bool {
				_, err := c.Launcher().Open(t.Context(), s.ID)
				return errors.Is(err, launcher.ErrPaused)
			})
			wantState(t, c.Launcher(), s.ID, launcher.Paused)
		},
		"ended": func(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox) {
			c.EndPod(t, s.PodName())
			harness.Await(t, "the pod's end", func() bool {
				list, err := c.Launcher().List(t.Context())
				return err == nil && list[0].State == launcher.Ended
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			k, specOf := harness.KeptPoolOf(t, c, 1, 2)
			s := launchWarm(t, k, specOf("a"))
			harness.Put(t, s, "file", "kept")
			s.Close()
			end(t, c, s)
			resumed, err := k.Resume(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			wantKept(t, resumed)
			resumed.Close()
			terminate(t, k, "a")
			awaitNothingOf(t, c, "a")
		})
	}
}

func TestTerminateOfAWarmSandboxRemovesItsFiles(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 3)
	launchWarm(t, k, specOf("a")).Close()
	harness.AwaitPool(t, c, 1)
	terminate(t, k, "a")
	awaitNothingOf(t, c, "a")
	again := specOf("a")
	again.OnClose = launcher.CloseDelete
	if err := launchWarm(t, k, again).Close(); err != nil {
		t.Fatal(err)
	}
	awaitNothingOf(t, c, "a")
	if err := pool.Delete(t.Context(), k, harness.PoolName); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the end of the claims of the pods that waited", func() bool { return len(claimsIn(t, c)) == 0 })
}

// Nobody looks at the pods of a pool while they wait, so its description says why they do.
func TestPoolWhoseClaimsGetNoStorageSaysSo(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 0)
	c.Storage(t, 0)
	spec := harness.PoolSpec(c)
	spec.Pod.Workspace = launcher.Workspace{Keep: true, StorageClass: "none"}
	if err := pool.Create(t.Context(), k, "kept", 1, spec); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the reason", func() bool {
		d, err := pool.Describe(t.Context(), k, "kept")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(d.Problem, "unbound immediate PersistentVolumeClaims")
	})
}

func TestDoctorFindsAPoolWithKeptWorkspacesHealthy(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 2)
	checked := false
	for f := range k.Check(t.Context(), specOf("")) {
		checked = checked || f.Name == "pool" && f.Verdict == launcher.Passed
		if f.Verdict == launcher.Failed {
			t.Errorf("%s: %v", f.Name, f.Err)
		}
	}
	if !checked {
		t.Error("the pool was not found healthy")
	}
}

// Who may write Leases can name any claim in the holding of a sandbox. That claim does not become
// the sandbox's.
func TestHoldingThatNamesTheClaimOfOthers(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 2)
	launchWarm(t, k, specOf("a"))
	claims, leases := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace), c.API(t).CoordinationV1().Leases(c.Namespace)
	own := claimOf(t, c, "a")
	own.ObjectMeta = metav1.ObjectMeta{Name: "theirs"}
	own.Spec.VolumeName = ""
	theirs, err := claims.Create(t.Context(), own, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := leases.Get(t.Context(), "id."+podmeta.NameOf("a"), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range held.OwnerReferences {
		if owner := &held.OwnerReferences[i]; owner.Kind == "PersistentVolumeClaim" {
			owner.Name, owner.UID = theirs.Name, theirs.UID
		}
	}
	if _, err := leases.Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNotOurs) {
		t.Errorf("Open: %v", err)
	}
	now, err := claims.Get(t.Context(), theirs.Name, metav1.GetOptions{})
	if err != nil || len(now.Annotations) > 0 || len(now.OwnerReferences) > 0 {
		t.Errorf("their claim is %+v now: %v", now, err)
	}
}

// claimOf returns the claim of a sandbox.
func claimOf(t *testing.T, c *launchertest.Cluster, id string) *corev1.PersistentVolumeClaim {
	t.Helper()
	list, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Annotations[podmeta.AnnotationID] == id {
			return &list.Items[i]
		}
	}
	t.Fatalf("sandbox %s has no claim", id)
	return nil
}

// A claim that is being deleted stays until its pod has ended.
func TestClaimThatIsDeletedUnderASandboxOutOfAPool(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 2)
	launchWarm(t, k, specOf("a"))
	name := claimOf(t, c, "a").Name
	if err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNotKept) {
		t.Errorf("Open: %v", err)
	}
	if _, err := k.Launch(t.Context(), specOf("a")); !errors.Is(err, launcher.ErrNotKept) {
		t.Errorf("Launch: %v", err)
	}
}
