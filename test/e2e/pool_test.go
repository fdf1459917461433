package e2e

// Sandboxes in pods that waited for them.

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/launcher/pool"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// waiting returns the names of the pods that wait in the pool and run.
func waiting(t *testing.T, c *launchertest.Cluster) (names []string) {
	t.Helper()
	for _, pod := range harness.Waiting(t, c) {
		names = append(names, pod.Name)
	}
	return names
}

func launchWarm(t *testing.T, k *launcher.Kubernetes, spec launcher.Spec) *launcher.Sandbox {
	t.Helper()
	s := harness.Launch(t, k, spec)
	if !s.Start.Warm || !s.Created {
		t.Fatalf("sandbox %s started as %+v, created %v", s.ID, s.Start, s.Created)
	}
	return s
}

func TestPoolGivesWhatTheSpecSays(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	before := waiting(t, c)
	if list, err := k.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("pods that wait are listed as sandboxes: %+v, %v", list, err)
	}
	spec := harness.Pooled(c, "a")
	spec.Env, spec.Protected = []string{"GREETING=hi $HOME"}, []string{"go.mod"}
	spec.Pod.Lifetime, spec.Pod.IdleTimeout, spec.Pod.ActiveDeadline = time.Hour, 30*time.Minute, 2*time.Hour
	spec.Pod.Labels, spec.Pod.Annotations = map[string]string{"team": "search"}, map[string]string{"note": "x"}
	s := launchWarm(t, k, spec)
	wantConfigured(t, s)
	pod := podOf(t, c, "a")
	if pod.Name != before[0] || s.PodName() != pod.Name {
		t.Errorf("it has pod %s, and %v waited", pod.Name, before)
	}
	if pod.Labels["team"] != "search" || pod.Annotations["note"] != "x" || pod.Labels[podmeta.LabelPool] != "" || len(pod.OwnerReferences) != 0 {
		t.Errorf("labels %v, annotations %v, owners %v", pod.Labels, pod.Annotations, pod.OwnerReferences)
	}
	if found, err := k.Find(t.Context(), "a"); err != nil || found.Pool != spec.Take.Pool {
		t.Errorf("it is said to come out of pool %q: %v", found.Pool, err)
	}
	age := time.Since(pod.Status.StartTime.Time)
	if d := time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second; d < 2*time.Hour || d > 2*time.Hour+age {
		t.Errorf("the cluster ends it %v after its start, %v ago", d, age)
	}
	if expires, err := k.Extend(t.Context(), "a", 90*time.Minute); err != nil || time.Until(expires) < 80*time.Minute {
		t.Errorf("extended to %v: %v", expires, err)
	}
	harness.AwaitPool(t, c, 1) // the cluster has made the next
	again := harness.Launch(t, k, spec)
	if again.Created || again.PodName() != s.PodName() || again.Start != (launcher.Start{}) || len(again.Drift) > 0 {
		t.Errorf("the next launch has pod %s, created %v, start %+v, drift %q", again.PodName(), again.Created, again.Start, again.Drift)
	}
	if err := k.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if s := launchWarm(t, k, spec); s.PodName() == pod.Name {
		t.Errorf("the sandbox has the pod of the one that was terminated")
	}
}

// wantConfigured expects what the Spec above sets.
func wantConfigured(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	if out, _, _ := harness.Run(t, s, "echo \"$GREETING\"", nil); out != "hi $HOME\n" {
		t.Errorf("a command prints %q", out)
	}
	if err := s.WriteFile(t.Context(), "go.mod", nil, 0o600); !errors.Is(err, fsops.ErrProtected) {
		t.Errorf("writing a protected path: %v", err)
	}
	info, err := s.Info(t.Context())
	if err != nil || info.IdleTimeout != 30*time.Minute || time.Until(info.Expires) > 2*time.Hour || info.Expires.IsZero() {
		t.Errorf("idle timeout %v, expires %v: %v", info.IdleTimeout, info.Expires, err)
	}
}

func TestSpecThatNoWarmPodFitsStartsColdAndSaysWhy(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	for id, test := range map[string]struct {
		change func(*launcher.Spec)
		why    string
	}{
		"limits": {func(s *launcher.Spec) {
			s.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
		}, "resources is {\"requests\""},
		"directory": {func(s *launcher.Spec) { s.Workdir = "/elsewhere" }, "workdir is"},
		"no-pool":   {func(s *launcher.Spec) { s.Take.Pool = "other" }, "the pool has no pods"},
		"large": {func(s *launcher.Spec) {
			s.Env = []string{"A=" + strings.Repeat("x", 60<<10)}
			s.Pod.Annotations = map[string]string{"x": strings.Repeat("x", 128<<10-1)}
			s.Protected = []string{strings.Repeat("x/", 14<<10)}
		}, "too large"},
	} {
		spec := harness.Pooled(c, id)
		test.change(&spec)
		s := harness.Launch(t, k, spec)
		if s.Start.Warm || !strings.Contains(s.Start.Cold, test.why) {
			t.Errorf("%s: it starts as %+v", id, s.Start)
		}
		if err := k.Terminate(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if got := harness.Launch(t, k, c.Spec("plain")).Start; got != (launcher.Start{}) {
		t.Errorf("without a pool it starts as %+v", got)
	}
}

// Launches of one id with and without a pool, and adoptions, end in one sandbox.
func TestOneIDIsOneSandboxWithAndWithoutAPool(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, 2)
	for round := range 4 {
		id := fmt.Sprintf("one-%d", round)
		var all sync.WaitGroup
		names := make([]string, 8)
		for i := range names {
			all.Go(func() {
				spec := c.Spec(id)
				if i%2 == 0 {
					spec = harness.Pooled(c, id)
				}
				s, err := c.Launcher().Launch(t.Context(), spec)
				if err != nil {
					t.Errorf("launch %d of %s: %v", i, id, err)
					return
				}
				defer s.Close()
				names[i] = s.PodName()
				if err := s.Command(t.Context(), "true").Run(); err != nil {
					t.Errorf("launch %d of %s: %v", i, id, err)
				}
			})
		}
		all.Wait()
		for _, name := range names {
			if name != names[0] {
				t.Errorf("%s has the pods %q", id, names)
				break
			}
		}
		harness.Await(t, "one pod of "+id, func() bool { return harness.SandboxPods(t, c, id) == 1 })
		if err := c.Launcher().Terminate(t.Context(), id); err != nil {
			t.Error(err)
		}
		harness.AwaitPool(t, c, 2)
	}
}

// More launches than pods wait at once: each pod goes to one of them, and the others start
// cold. The cluster makes no further pods for the pool meanwhile. A launch whose pod is too
// slow to answer, on a busy machine, starts cold, too.
func TestLaunchesShareOutAPoolThatIsTooSmall(t *testing.T) {
	t.Parallel()
	launches, size := 64, 20
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, size)
	orphan(t, c)
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		warm = map[string]bool{}
		cold int
		slow int
	)
	for i := range launches {
		all.Go(func() {
			s, err := c.Launcher().Launch(t.Context(), harness.Pooled(c, fmt.Sprintf("l-%d", i)))
			if err != nil {
				t.Errorf("launch %d: %v", i, err)
				return
			}
			defer s.Close()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case !s.Start.Warm:
				cold++
				if strings.Contains(s.Start.Cold, "its agent does not serve") {
					slow++
				}
			case warm[s.PodName()]:
				t.Errorf("pod %s went to two sandboxes", s.PodName())
			}
			warm[s.PodName()] = s.Start.Warm
		})
	}
	all.Wait()
	if cold < launches-size || cold > launches-size+slow || len(warm) != launches {
		t.Errorf("%d of %d sandboxes started cold, %d for slow pods, with %d warm pods, and %d have pods of their own", cold, launches, slow, size, len(warm))
	}
}

// orphan takes the pods of the pool from their controllers, which then make no others.
func orphan(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	sets, err := c.API(t).AppsV1().ReplicaSets(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(sets.Items) != 1 {
		t.Fatalf("%d sets of pods: %v", len(sets.Items), err)
	}
	opts := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}
	if err := c.API(t).AppsV1().Deployments(c.Namespace).Delete(t.Context(), "warm", opts); err != nil {
		t.Fatal(err)
	}
	if err := c.API(t).AppsV1().ReplicaSets(c.Namespace).Delete(t.Context(), sets.Items[0].Name, opts); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "pods without a controller", func() bool {
		list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelPool + "=warm"})
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range list.Items {
			if len(pod.OwnerReferences) > 0 {
				return false
			}
		}
		return true
	})
}

// A launch that was killed between its two writes leaves a holding. The next launch of the id
// takes it back, and its pod stays no sandbox's.
func TestHoldingOfALaunchThatWasKilledIsTakenBack(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	leases, pods := c.API(t).CoordinationV1().Leases(c.Namespace), c.API(t).CoreV1().Pods(c.Namespace)
	left, err := pods.Get(t.Context(), waiting(t, c)[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: holdingOf("a"), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: left.Name, UID: left.UID}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := harness.Launch(t, k, harness.Pooled(c, "a"))
	if s.PodName() == left.Name {
		t.Error("the sandbox has the pod that another launch may still take")
	}
	if now, err := leases.Get(t.Context(), held.Name, metav1.GetOptions{}); err == nil && now.UID == held.UID {
		t.Error("the holding stays")
	}
	if pod, err := pods.Get(t.Context(), left.Name, metav1.GetOptions{}); err == nil && pod.UID == left.UID && pod.DeletionTimestamp == nil {
		t.Error("its pod stays, and the launch may take it")
	}
}

// holdingOf is the name of the Lease by which an id without special characters holds a pod.
func holdingOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "id." + id + "-" + hex.EncodeToString(sum[:8])
}

// A pod of a pool is always restarted, but a sandbox that ended itself stays ended.
func TestWarmSandboxThatEndedItselfStaysEnded(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	spec := harness.Pooled(c, "a")
	spec.Pod.IdleTimeout = 20 * time.Second
	s := launchWarm(t, k, spec)
	harness.Await(t, "the end", func() bool {
		list, err := k.List(t.Context())
		return err == nil && len(list) == 1 && list[0].State == launcher.Ended
	})
	if _, err := s.Stat(t.Context(), "."); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("a call to what has ended: %v", err)
	}
	if _, err := k.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("Open of what has ended: %v", err)
	}
	harness.AwaitPool(t, c, 1)
	spec.Take.OnStale = launcher.StaleRecreate
	if again := launchWarm(t, k, spec); again.PodName() == s.PodName() {
		t.Error("the sandbox that was made again has the pod that had ended")
	}
}

// After a key was retired, an agent that starts again believes its assignment, which a newer key
// has signed.
func TestAssignmentOutlivesTheKeyThatSignedIt(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, 0)
	k := sharing(c)
	if err := pool.Create(t.Context(), k, "warm", 1, harness.PoolSpec(c)); err != nil {
		t.Fatal(err)
	}
	harness.AwaitPool(t, c, 1)
	spec := harness.Pooled(c, "a")
	spec.Env, spec.Protected = []string{"GREETING=hi $HOME"}, []string{"go.mod"}
	spec.Pod.Lifetime, spec.Pod.IdleTimeout = time.Hour, 30*time.Minute
	s := launchWarm(t, k, spec)
	if _, err := k.RotateIdentity(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := k.RetireIdentity(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	boot := harness.BootOf(t, s)
	c.KillAgent(t, podUID(t, s))
	harness.Await(t, "the next agent", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.BootID != boot
	})
	wantConfigured(t, s)
	harness.AwaitPool(t, c, 1) // with the older key, which nobody has
	other := harness.Launch(t, k, harness.Pooled(c, "b"))
	if other.Start.Warm || !strings.Contains(other.Start.Cold, "identity") {
		t.Errorf("the next sandbox starts as %+v", other.Start)
	}
}

func TestPoolsAreMadeChangedAndRemoved(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 2)
	s := launchWarm(t, k, harness.Pooled(c, "a"))
	if err := pool.Scale(t.Context(), k, "warm", 1); err != nil {
		t.Error(err)
	}
	harness.AwaitPool(t, c, 1)
	if list, err := pool.List(t.Context(), k); err != nil || len(list) != 1 || list[0].Name != "warm" || list[0].Size != 1 || list[0].Image != c.Image {
		t.Errorf("the pools are %+v: %v", list, err)
	}
	for name, err := range map[string]error{
		"a wrong name":    pool.Create(t.Context(), k, "No Name", 1, c.Spec("")),
		"a negative size": pool.Scale(t.Context(), k, "warm", -1),
		"an id":           pool.Create(t.Context(), k, "warm", 1, c.Spec("a")),
		"a command":       pool.Create(t.Context(), k, "warm", 1, launcher.Spec{Pod: launcher.Pod{Image: c.Image, Main: []string{"true"}}}),
	} {
		if !errors.As(err, new(*launcher.SpecError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := pool.Scale(t.Context(), k, "none", 1); !errors.Is(err, pool.ErrNotFound) {
		t.Errorf("scaling what is not there: %v", err)
	}
	if err := pool.Delete(t.Context(), k, "warm"); err != nil {
		t.Error(err)
	}
	harness.AwaitPool(t, c, 0)
	if err := s.Command(t.Context(), "true").Run(); err != nil {
		t.Errorf("the sandbox whose pool is gone: %v", err)
	}
	if err := pool.Delete(t.Context(), k, "warm"); !errors.Is(err, pool.ErrNotFound) {
		t.Errorf("removing it again: %v", err)
	}
	plain := c.Launcher()
	plain.Config = c.LimitedAccount(t, "plain", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	if err := pool.Scale(t.Context(), plain, "warm", 1); !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("without permissions: %v", err)
	}
}
