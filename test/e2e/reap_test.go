package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The pods have no node, as two hundred that run would need more than one: so
// no agent answers, and what counts is the heartbeat.
func TestReapOf200PodsDeletesExactlyTheStale(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	var stale, all []string
	var making sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range 200 {
		id, age := fmt.Sprintf("pod-%03d", i), time.Duration(i%4)*5*time.Minute // 0 to 15
		all = append(all, id)
		if age >= 10*time.Minute {
			stale = append(stale, id)
		}
		slots <- struct{}{}
		making.Go(func() {
			defer func() { <-slots }()
			createPod(t, c, idlePod(c, id, age))
		})
	}
	making.Wait()
	foreign := idlePod(c, "foreign", time.Hour)
	delete(foreign.Labels, launcher.LabelManagedBy)
	createPod(t, c, foreign)
	if t.Failed() {
		return
	}

	// Of the stale ones, some get a heartbeat while the reaper works.
	var beating sync.WaitGroup
	var beaten sync.Map
	beating.Go(func() {
		k := c.Launcher()
		for _, id := range slices.Backward(stale) { // against the reaper's order
			switch err := k.Heartbeat(t.Context(), id); {
			case err == nil:
				beaten.Store(id, true)
			case !errors.Is(err, launcher.ErrNotFound) && !errors.Is(err, launcher.ErrGone):
				t.Error(err)
			}
		}
	})
	reaped, err := c.Launcher().Reap(t.Context(), launcher.ReapOptions{StaleAfter: 10 * time.Minute})
	beating.Wait()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range reaped {
		got = append(got, s.ID)
		if _, ok := beaten.Load(s.ID); ok {
			t.Errorf("%s was deleted though a heartbeat had come", s.ID)
		}
		if !slices.Contains(stale, s.ID) {
			t.Errorf("%s was not stale", s.ID)
		}
	}
	for _, id := range stale {
		if _, ok := beaten.Load(id); !ok && !slices.Contains(got, id) {
			t.Errorf("%s is stale and was left", id)
		}
	}
	var want []string
	for _, id := range all {
		if !slices.Contains(got, id) {
			want = append(want, id)
		}
	}
	left, err := c.Launcher().List(t.Context())
	var ids []string
	for _, s := range left {
		ids = append(ids, s.ID)
	}
	if err != nil || !cmp.Equal(ids, want) {
		t.Errorf("left are: %v, %s", err, cmp.Diff(want, ids))
	}
	podOf(t, c, "foreign") // is there
	if len(got) == 0 || len(got) == len(stale) {
		t.Errorf("%d of %d stale pods were deleted: no heartbeat came between", len(got), len(stale))
	}
}

// What two reapers delete at once, one of them says.
func TestReapersAtOnceSayEachPodOnce(t *testing.T) {
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

// A launch that waits, for an image or a node, has its pod needed meanwhile.
func TestLaunchThatWaitsHasAHeartbeat(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Heartbeat = time.Second
	spec.Pod.Patch = []byte("spec: {schedulingGates: [{name: example.com/wait}]}")
	launched := make(chan error, 1)
	go func() {
		s, err := c.Launcher().Launch(t.Context(), spec)
		if err == nil {
			err = s.Close()
		}
		launched <- err
	}()
	var first string
	harness.Await(t, "a heartbeat", func() bool {
		list, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return false
		}
		beat := list.Items[0].Annotations[launcher.AnnotationHeartbeat]
		if first == "" {
			first = beat
		}
		return beat != first
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

func TestReapTakesAnAgentThatDoesNotAnswerForIdle(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	k := c.Launcher()
	const long = 5 * time.Second
	for id, heartbeat := range map[string]time.Duration{"stale": launcher.HeartbeatOff, "fresh": time.Second} {
		spec := c.Spec(id)
		spec.Pod.Heartbeat = heartbeat
		s := harness.Launch(t, k, spec)
		if err := s.Command(t.Context(), "sleep", "600").Start(); err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		harness.Await(t, "readiness", func() bool {
			list, err := k.List(t.Context())
			return err == nil && slices.ContainsFunc(list, func(s launcher.Summary) bool { return s.ID == id && s.State == launcher.Running })
		})
		c.FreezeAgent(t, info.PodUID)
	}
	time.Sleep(long) // this is how a heartbeat gets old
	got, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: long})
	if len(got) != 1 || got[0].ID != "stale" || err != nil {
		t.Errorf("Reap: %v, %v", got, err)
	}
}

func TestReapAsksTheAgent(t *testing.T) { overEachWay(t, testReapAsksTheAgent) }

func testReapAsksTheAgent(t *testing.T, c *launchertest.Cluster) {
	k := c.Launcher()
	const long = 2 * time.Second
	spec := func(id string) launcher.Spec {
		s := c.Spec(id)
		s.Pod.Heartbeat = launcher.HeartbeatOff
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
	harness.Await(t, "readiness", func() bool {
		list, err := k.List(t.Context())
		return err == nil && !slices.ContainsFunc(list, func(s launcher.Summary) bool { return s.State != launcher.Running })
	})
	time.Sleep(long) // this is how one gets idle

	dry, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: long, DryRun: true})
	if len(dry) != 1 || dry[0].ID != "idle" || !errors.Is(err, launcher.ErrOtherKey) {
		t.Errorf("a dry run: %v, %v", dry, err)
	}
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

// idlePod returns the pod of a sandbox whose last heartbeat was so long ago,
// which no node can hold.
func idlePod(c *launchertest.Cluster, id string, age time.Duration) *corev1.Pod {
	sum := sha256.Sum256([]byte(id))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:   id + "-" + hex.EncodeToString(sum[:8]),
			Labels: map[string]string{launcher.LabelManagedBy: launcher.ManagedBy, launcher.LabelID: id},
			Annotations: map[string]string{
				launcher.AnnotationID:        id,
				launcher.AnnotationHeartbeat: time.Now().Add(-age).UTC().Format(time.RFC3339Nano),
				launcher.AnnotationKey:       c.Identity.AuthorizedKey().Fingerprint(),
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

// TestReapLeavesWhatIsChangedAndNotWhatItsNodeReports has something come between the
// look at a pod and its deletion.
func TestReapLeavesWhatIsChangedAndNotWhatItsNodeReports(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		patch       string
		subresource []string
		reaped      bool
	}{
		"a report of its node": {`{"status":{"message":"as before"}}`, []string{"status"}, true},
		"a label":              {`{"metadata":{"labels":{"mine":"now"}}}`, nil, false},
		"a heartbeat":          {fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, launcher.AnnotationHeartbeat, time.Now().Format(time.RFC3339Nano)), nil, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			pod := idlePod(c, "a", time.Hour)
			createPod(t, c, pod)
			k := c.Launcher()
			k.Config = rest.CopyConfig(k.Config)
			var once sync.Once
			k.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodDelete {
						once.Do(func() {
							if _, err := c.API(t).CoreV1().Pods(c.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, []byte(test.patch), metav1.PatchOptions{}, test.subresource...); err != nil {
								t.Error(err)
							}
						})
					}
					return next.RoundTrip(r)
				})
			})
			reaped, err := k.Reap(t.Context(), launcher.ReapOptions{HeartbeatOnly: true})
			if err != nil || (len(reaped) == 1) != test.reaped {
				t.Errorf("reaped %v, %v", reaped, err)
			}
		})
	}
}
