package e2e

// Heartbeats are in a Lease for all sandboxes that a launcher has open, and now and then in their
// pods.

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestHeartbeatIsRefreshedUntilClose(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := beating(c, "a")
	s := harness.Launch(t, k, spec)
	first := heartbeat(t, k, "a")
	harness.Await(t, "a heartbeat", func() bool { return heartbeat(t, k, "a").After(first) })
	before := heartbeat(t, k, "a")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last := heartbeat(t, k, "a")
	if last.Before(before) {
		t.Errorf("the last heartbeat is %v, and was %v before Close", last, before)
	}
	if err := k.Heartbeat(t.Context(), "a"); err != nil || !heartbeat(t, k, "a").After(last) {
		t.Errorf("Heartbeat changed nothing: %v", err)
	}
	last = heartbeat(t, k, "a")
	spec.Take.Heartbeat = launcher.HeartbeatOff
	harness.Launch(t, k, spec)
	if !heartbeat(t, k, "a").After(last) {
		t.Error("an adoption does not count as a heartbeat")
	}
	if err := k.Heartbeat(t.Context(), "other"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("Heartbeat of a missing sandbox: %v", err)
	}
}

// beating is the Spec of a sandbox with a heartbeat each second.
func beating(c *launchertest.Cluster, id string) launcher.Spec {
	spec := c.Spec(id)
	spec.Take.Heartbeat = time.Second
	return spec
}

func heartbeat(t *testing.T, k *launcher.Kubernetes, id string) time.Time {
	t.Helper()
	list, err := k.List(t.Context())
	i := slices.IndexFunc(list, func(s launcher.Summary) bool { return s.ID == id })
	if err != nil || i < 0 {
		t.Fatalf("there is no sandbox %s in %+v: %v", id, list, err)
	}
	return list[i].Heartbeat
}

func TestHeartbeatsOfManySandboxesAreOneLease(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	patches := count(k, patchesPod)
	var open []*launcher.Sandbox
	for i := range 3 {
		open = append(open, harness.Launch(t, k, beating(c, fmt.Sprint("sandbox-", i))))
	}
	launched, at := patches.Load(), time.Now()
	said := podOf(t, c, "sandbox-0").Annotations[podmeta.AnnotationHeartbeat]
	// Each pod speaks every ten seconds, and after each heartbeat that was late.
	late := awaitRenewals(t, c, 3, 5)
	n, took := patches.Load()-launched, time.Since(at)
	if n > int64(3*(1+int(took/(9*time.Second))+late)) {
		t.Errorf("%d calls changed 3 pods in %v, with %d late heartbeats", n, took, late)
	}
	// Reapers of versions before the Lease know the pods alone.
	harness.Await(t, "a heartbeat in a pod", func() bool {
		return podOf(t, c, "sandbox-0").Annotations[podmeta.AnnotationHeartbeat] != said
	})
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	awaitRenewals(t, c, 2, 1)
	for _, s := range open[1:] {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if left := beatLeases(t, c); len(left) > 0 {
		t.Errorf("%d Leases are left", len(left))
	}
}

// awaitRenewals waits until one Lease names this many pods, and has been renewed at least so often
// since. It returns how often it saw that more than two seconds after the time before.
func awaitRenewals(t *testing.T, c *launchertest.Cluster, pods, times int) (late int) {
	t.Helper()
	var last time.Time
	seen := 0
	harness.Await(t, fmt.Sprintf("%d heartbeats of %d pods", times, pods), func() bool {
		leases := beatLeases(t, c)
		if len(leases) != 1 || len(strings.Split(leases[0].Annotations[podmeta.AnnotationPods], ",")) != pods {
			return false
		}
		if renewed := leases[0].Spec.RenewTime.Time; renewed.After(last) {
			if !last.IsZero() && renewed.Sub(last) > 2*time.Second {
				late++
			}
			last = renewed
			seen++
		}
		return seen > times
	})
	return late
}

// beatLeases are the Leases of heartbeats.
func beatLeases(t *testing.T, c *launchertest.Cluster) []coordinationv1.Lease {
	t.Helper()
	list, err := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelHeartbeats})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// count counts a launcher's requests of a kind.
func count(k *launcher.Kubernetes, kind func(*http.Request) bool) *atomic.Int64 {
	n := new(atomic.Int64)
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if kind(r) {
				n.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	return n
}

func patchesPod(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/pods/")
}

// writesBeats selects requests that create or renew a Lease of heartbeats.
func writesBeats(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/leases") ||
		r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/leases/heartbeats.")
}

// While a launcher could not say that it needs its pods, a reaper may have begun to delete them. It
// deletes none that has changed, so all pods say so themselves at once.
func TestHeartbeatAfterAPauseIsInThePods(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	var down atomic.Bool
	var tries atomic.Int64
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if down.Load() && writesBeats(r) && tries.Add(1) <= 4 {
				return nil, errors.New("the network is down")
			}
			return next.RoundTrip(r)
		})
	})
	var spoke atomic.Int64 // the try at which the pod first spoke afterwards
	patches := count(k, func(r *http.Request) bool {
		if patchesPod(r) && down.Load() {
			spoke.CompareAndSwap(0, tries.Load())
		}
		return patchesPod(r)
	})
	harness.Launch(t, k, beating(c, "a"))
	patches.Store(0)
	harness.Await(t, "the pod's own heartbeat, each tenth", func() bool { return patches.Swap(0) > 0 })
	down.Store(true)
	harness.Await(t, "a heartbeat in the pod", func() bool { return spoke.Load() > 0 })
	if n := spoke.Load(); n < 5 || n > 9 {
		t.Errorf("that was %d heartbeats after the pod's own", n)
	}
}

// Roles from before the Lease do not let everybody make one.
func TestHeartbeatsWithoutTheRightToMakeLeasesAreInThePods(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	k.Config = c.LimitedAccount(t, "limited",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/portforward"}, Verbs: []string{"get", "create"}},
		leaseRule("get"))
	patches := count(k, patchesPod)
	harness.Launch(t, k, beating(c, "a"))
	launched := patches.Load()
	harness.Await(t, "three heartbeats in the pod", func() bool { return patches.Load() >= launched+3 })
	first := heartbeat(t, k, "a")
	harness.Await(t, "a heartbeat in the list", func() bool { return heartbeat(t, k, "a").After(first) })
	if _, err := k.Reap(t.Context(), launcher.ReapOptions{}); !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("a reaper that may not read Leases: %v", err)
	}
}

func TestReapLooksAtTheHeartbeatsInLeases(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	uids := map[string]string{}
	for _, id := range []string{"needed", "twice", "left", "unnamed"} {
		createPod(t, c, idlePod(c, id, time.Hour))
		uids[id] = string(podOf(t, c, id).UID)
	}
	makeBeatLease(t, c, "alive", time.Minute, uids["needed"], uids["twice"])
	makeBeatLease(t, c, "dead", 30*time.Minute, uids["left"], uids["twice"])
	makeBeatLease(t, c, "odd", time.Minute, "", ",,", "no uid")
	if beat := heartbeat(t, k, "left"); time.Since(beat) < 30*time.Minute || time.Since(beat) > 45*time.Minute {
		t.Errorf("the heartbeat of a Lease from half an hour ago is listed as %v", beat)
	}
	reaped, err := k.Reap(t.Context(), launcher.ReapOptions{StaleAfter: 10 * time.Minute, HeartbeatOnly: true})
	if got := idsOf(reaped); err != nil || !slices.Equal(got, []string{"left", "unnamed"}) {
		t.Errorf("reaped %q: %v", got, err)
	}
}

// makeBeatLease makes the Lease of a launcher that was last alive so long ago.
func makeBeatLease(t *testing.T, c *launchertest.Cluster, name string, age time.Duration, uids ...string) {
	t.Helper()
	_, err := c.API(t).CoordinationV1().Leases(c.Namespace).Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{podmeta.LabelManagedBy: podmeta.ManagedBy, podmeta.LabelHeartbeats: podmeta.OfPods},
			Annotations: map[string]string{podmeta.AnnotationPods: strings.Join(uids, ",")},
		},
		Spec: coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(time.Now().Add(-age)))},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLeasesOfLaunchersThatWereKilledGoAfterAWeek(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	makeBeatLease(t, c, "old", 8*24*time.Hour, "uid")
	makeBeatLease(t, c, "young", 6*24*time.Hour, "uid")
	harness.Launch(t, c.Launcher(), beating(c, "a"))
	harness.Await(t, "a Lease in place of the old one", func() bool {
		var names []string
		for _, lease := range beatLeases(t, c) {
			names = append(names, lease.Name)
		}
		return len(names) == 2 && strings.HasPrefix(names[0], "heartbeats.") && names[1] == "young"
	})
}

// Others may change or delete the Lease.
func TestLeaseOfHeartbeatsIsWrittenAgain(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.Launch(t, c.Launcher(), beating(c, "a"))
	awaitRenewals(t, c, 1, 1)
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	lease := beatLeases(t, c)[0]
	if err := leases.Delete(t.Context(), lease.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRenewals(t, c, 1, 1)
	harness.Await(t, "a change by others", func() bool {
		lease := beatLeases(t, c)[0]
		lease.Annotations[podmeta.AnnotationPods] = ""
		_, err := leases.Update(t.Context(), &lease, metav1.UpdateOptions{})
		return err == nil
	})
	harness.Await(t, "a heartbeat", func() bool {
		return beatLeases(t, c)[0].Annotations[podmeta.AnnotationPods] == string(podOf(t, c, "a").UID)
	})
}
