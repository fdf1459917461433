package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The pods have no node, because two hundred running ones would need more than one
// node. So no agent answers, and only the heartbeat counts.
func TestReapOf200PodsDeletesExactlyTheStale(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	fresh, stale := makeAging(t, c, 200)
	foreign := idlePod(c, "foreign", time.Hour)
	delete(foreign.Labels, podmeta.LabelManagedBy)
	createPod(t, c, foreign)
	// Half of the stale pods get a heartbeat after the reaper has seen them all,
	// when it deletes the first one.
	late, dead := stale[:len(stale)/2], stale[len(stale)/2:]
	k := c.Launcher()
	before(k, deletes, func() {
		for _, id := range late {
			if err := c.Launcher().Heartbeat(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
	})
	reaped, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(dead, idsOf(reaped)); diff != "" {
		t.Errorf("reaped (-want +got):\n%s", diff)
	}
	left, err := c.Launcher().List(t.Context())
	if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(fresh, late))), idsOf(left)); diff != "" || err != nil {
		t.Errorf("pods that are left (-want +got), %v:\n%s", err, diff)
	}
	podOf(t, c, "foreign") // it still exists
}

// makeAging makes n pods. Half of them have had no heartbeat for ten minutes.
func makeAging(t *testing.T, c *launchertest.Cluster, n int) (fresh, stale []string) {
	t.Helper()
	var making sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range n {
		id, age := fmt.Sprintf("pod-%03d", i), time.Duration(i%4)*5*time.Minute // 0 to 15
		if age >= 10*time.Minute {
			stale = append(stale, id)
		} else {
			fresh = append(fresh, id)
		}
		slots <- struct{}{}
		making.Go(func() {
			defer func() { <-slots }()
			createPod(t, c, idlePod(c, id, age))
		})
	}
	making.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return fresh, stale
}

// before calls happen before a launcher's first request of a kind. Other requests
// of that kind wait until it has returned.
func before(k *launcher.Kubernetes, kind func(*http.Request) bool, happen func()) {
	happen = sync.OnceFunc(happen)
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if kind(r) {
				happen()
			}
			return next.RoundTrip(r)
		})
	})
}

// deletes selects requests that delete something.
func deletes(r *http.Request) bool { return r.Method == http.MethodDelete }

// nth selects the nth request from now on. The first is number 1.
func nth(n int64) func(*http.Request) bool {
	var made atomic.Int64
	return func(*http.Request) bool { return made.Add(1) == n }
}

func idsOf(list []launcher.Summary) (ids []string) {
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids
}

// If two reapers delete pods concurrently, only one of them reports each pod.
func TestConcurrentReapersReportEachPodOnce(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	const all = 20
	for i := range all {
		createPod(t, c, idlePod(c, fmt.Sprintf("pod-%02d", i), time.Hour))
	}
	var mu sync.Mutex
	times := map[string]int{}
	var reaping sync.WaitGroup
	for range 2 {
		reaping.Go(func() {
			reaped, err := c.Launcher().Reap(t.Context(), launcher.ReapOptions{HeartbeatOnly: true})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, s := range reaped {
				times[s.ID]++
			}
		})
	}
	reaping.Wait()
	for id, n := range times {
		if n != 1 {
			t.Errorf("%s was reaped %d times", id, n)
		}
	}
	if len(times) != all {
		t.Errorf("%d of %d were reaped", len(times), all)
	}
}

// A launch may wait for an image or a node. Meanwhile a heartbeat shows that its
// pod is needed.
func TestLaunchThatWaitsHasAHeartbeat(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Take.Heartbeat = time.Second
	spec.Pod.Patch = []byte("spec: {schedulingGates: [{name: example.com/wait}]}")
	launched := make(chan error, 1)
	go func() {
		s, err := c.Launcher().Launch(t.Context(), spec)
		if err == nil {
			err = s.Close()
		}
		launched <- err
	}()
	var first time.Time
	harness.Await(t, "a heartbeat", func() bool {
		list, err := c.Launcher().List(t.Context())
		if err != nil || len(list) != 1 {
			return false
		}
		if first.IsZero() {
			first = list[0].Heartbeat
		}
		return list[0].Heartbeat.After(first)
	})
	select {
	case err := <-launched:
		t.Fatalf("the launch did not wait: %v", err)
	default:
	}
	open := []byte(`{"spec":{"schedulingGates":null}}`)
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), podOf(t, c, "a").Name, types.MergePatchType, open, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-launched; err != nil {
		t.Error(err)
	}
}

func TestReapTreatsAnAgentThatDoesNotAnswerAsIdle(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	k := c.Launcher()
	for _, id := range []string{"stale", "fresh"} {
		spec := c.Spec(id)
		spec.Take.Heartbeat = launcher.HeartbeatOff
		s := harness.Launch(t, k, spec)
		if err := s.Command(t.Context(), "sleep", "600").Start(); err != nil {
			t.Fatal(err)
		}
		harness.Await(t, "the sandboxes that run", func() bool {
			list, err := k.List(t.Context())
			return err == nil && slices.ContainsFunc(list, func(s launcher.Summary) bool { return s.ID == id && s.State == launcher.Running })
		})
		c.FreezeAgent(t, podUID(t, s))
	}
	age(t, c, "stale", time.Hour)
	got, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: 30 * time.Minute})
	if len(got) != 1 || got[0].ID != "stale" || err != nil {
		t.Errorf("Reap: %v, %v", got, err)
	}
}

// age makes the last heartbeat of a sandbox this old.
func age(t *testing.T, c *launchertest.Cluster, id string, by time.Duration) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, podmeta.AnnotationHeartbeat, time.Now().Add(-by).UTC().Format(time.RFC3339Nano))
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), podOf(t, c, id).Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestReapAsksTheAgent(t *testing.T) { overEachWay(t, testReapAsksTheAgent) }

func testReapAsksTheAgent(t *testing.T, c *launchertest.Cluster) {
	k := c.Launcher()
	const long = 2 * time.Second
	spec := func(id string) launcher.Spec {
		s := c.Spec(id)
		s.Take.Heartbeat = launcher.HeartbeatOff
		return s
	}
	idle, busy := harness.Launch(t, k, spec("idle")), harness.Launch(t, k, spec("busy"))
	idle.Close()
	if err := busy.Command(t.Context(), "sleep", "600").Start(); err != nil {
		t.Fatal(err)
	}
	other, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	theirs := c.Launcher()
	theirs.Identity = &other
	harness.Launch(t, theirs, spec("theirs")).Close()
	harness.Await(t, "the sandboxes that run", func() bool {
		list, err := k.List(t.Context())
		return err == nil && !slices.ContainsFunc(list, func(s launcher.Summary) bool { return s.State != launcher.Running })
	})
	time.Sleep(long) // this is how a sandbox becomes idle

	// An agent that does not answer in time counts as idle, so this may take some tries.
	harness.Await(t, "the answer that one is idle", func() bool {
		dry, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: long, DryRun: true})
		return len(dry) == 1 && dry[0].ID == "idle" && errors.Is(err, launcher.ErrOtherKey)
	})
	got, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: long})
	if len(got) != 1 || got[0].ID != "idle" || !errors.Is(err, launcher.ErrOtherKey) {
		t.Errorf("with the agents asked: %v, %v", got, err)
	}
	got, err = k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: long, HeartbeatOnly: true})
	if len(got) != 2 || err != nil {
		t.Errorf("by heartbeat alone: %v, %v", got, err)
	}
}

func createPod(t *testing.T, c *launchertest.Cluster, pod *corev1.Pod) {
	t.Helper()
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// idlePod returns the pod of a sandbox whose last heartbeat is this old. No node
// can run it.
func idlePod(c *launchertest.Cluster, id string, age time.Duration) *corev1.Pod {
	sum := sha256.Sum256([]byte(id))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:   id + "-" + hex.EncodeToString(sum[:8]),
			Labels: map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelID: id},
			Annotations: map[string]string{
				podmeta.AnnotationID:        id,
				podmeta.AnnotationHeartbeat: time.Now().Add(-age).UTC().Format(time.RFC3339Nano),
				podmeta.AnnotationKey:       c.Identity.AuthorizedKey().Fingerprint(),
			},
		},
		Spec: corev1.PodSpec{
			NodeSelector:    map[string]string{"example.com/nowhere": "true"},
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "agent", Image: c.Image,
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		},
	}
}

// TestReapLeavesWhatIsChangedAndNotWhatItsNodeReports makes a change between the
// look at a pod and its deletion.
func TestReapLeavesWhatIsChangedAndNotWhatItsNodeReports(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		patch       string
		subresource []string
		reaped      bool
	}{
		"a report from its node": {`{"status":{"message":"as before"}}`, []string{"status"}, true},
		"a label":                {`{"metadata":{"labels":{"mine":"now"}}}`, nil, false},
		"a heartbeat":            {fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, podmeta.AnnotationHeartbeat, time.Now().Format(time.RFC3339Nano)), nil, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			pod := idlePod(c, "a", time.Hour)
			createPod(t, c, pod)
			k := c.Launcher()
			before(k, deletes, func() {
				if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(test.patch), metav1.PatchOptions{}, test.subresource...); err != nil {
					t.Error(err)
				}
			})
			reaped, err := k.Reap(t.Context(), launcher.ReapOptions{HeartbeatOnly: true})
			if err != nil || (len(reaped) == 1) != test.reaped {
				t.Errorf("reaped %v, %v", reaped, err)
			}
		})
	}
}
