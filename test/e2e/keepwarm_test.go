package e2e

// Connections that a host keeps to pods that wait.

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/launchtrace"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// keeping is a launcher that keeps connections to pods that wait.
type keeping struct {
	*launcher.Kubernetes
	slog.Handler

	mu    sync.Mutex
	kept  []string       // the pods, as the launcher logs them
	dials map[string]int // the port-forwards to each pod
}

// keepWarm keeps n connections until the test ends.
func keepWarm(t *testing.T, c *launchertest.Cluster, n int) *keeping {
	t.Helper()
	k := &keeping{Kubernetes: c.Launcher(), Handler: slog.DiscardHandler, dials: map[string]int{}}
	k.Log, k.Config = slog.New(k), rest.CopyConfig(k.Config)
	k.Config.Wrap(k.wrap)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.KeepWarm(ctx, "warm", n) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("keeping connections ends with %v", err)
		}
	})
	return k
}

func (k *keeping) Enabled(context.Context, slog.Level) bool { return true }

func (k *keeping) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "connected to a pod that waits" {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "pod" {
				k.mu.Lock()
				defer k.mu.Unlock()
				k.kept = append(k.kept, a.Value.String())
			}
			return true
		})
	}
	return nil
}

func (k *keeping) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if pod, ok := strings.CutSuffix(r.URL.Path, "/portforward"); ok {
			k.mu.Lock()
			k.dials[path.Base(pod)]++
			k.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// dialled returns how often there was a port-forward to a pod.
func (k *keeping) dialled(pod string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dials[pod]
}

// awaitKept waits until there is one pod that waits, and a connection to it.
func (k *keeping) awaitKept(t *testing.T, c *launchertest.Cluster) (pod string) {
	t.Helper()
	harness.Await(t, "a connection to the pod that waits", func() bool {
		names := waiting(t, c)
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(names) != 1 || !slices.Contains(k.kept, names[0]) {
			return false
		}
		pod = names[0]
		return true
	})
	return pod
}

// A sandbox has one connection from before it was taken until its end.
func TestKeptConnectionIsThatOfTheSandbox(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, 1)
	k := keepWarm(t, c, 2)
	for _, id := range []string{"a", "b"} { // the second gets the pod that the cluster has made since
		pod := k.awaitKept(t, c)
		before := k.dialled(pod) // the first tries may have come before the agent listened
		spec := harness.Pooled(c, id)
		spec.Env = []string{"GREETING=hi"}
		s := launchWarm(t, k.Kubernetes, spec)
		if out, _, err := harness.Run(t, s, "echo $GREETING", nil); s.PodName() != pod || out != "hi\n" || k.dialled(pod) != before {
			t.Errorf("pod %s (%s waited) says %q after %d more dials: %v", s.PodName(), pod, out, k.dialled(pod)-before, err)
		}
	}
}

// Without a kept connection, a launch has one, too: it is configured on the connection that stays.
func TestTakenPodIsDialledOnce(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, 1)
	keepWarm(t, c, 1).awaitKept(t, c) // so that the agent listens
	k := &keeping{Kubernetes: c.Launcher(), dials: map[string]int{}}
	k.Config = rest.CopyConfig(k.Config)
	k.Config.Wrap(k.wrap)
	spec := harness.Pooled(c, "a")
	spec.Env = []string{"GREETING=hi"}
	if s := launchWarm(t, k.Kubernetes, spec); k.dialled(s.PodName()) != 1 {
		t.Errorf("there were %d dials", k.dialled(s.PodName()))
	}
}

// An agent that restarts gets its configuration by the sandbox's next connection.
func TestSandboxOfAKeptConnectionOutlivesItsAgent(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, 1)
	k := keepWarm(t, c, 1)
	k.awaitKept(t, c)
	spec := harness.Pooled(c, "a")
	spec.Env = []string{"GREETING=hi"}
	s := launchWarm(t, k.Kubernetes, spec)
	restarted(t, c, podUID(t, s), "a")
	harness.Await(t, "a connection to the agent", func() bool { return s.Healthy(t.Context()) == nil })
	if out, _, err := harness.Run(t, s, "echo $GREETING", nil); out != "hi\n" {
		t.Errorf("it says %q: %v", out, err)
	}
}

// A pod whose agent hangs is left in its pool, with a kept connection and without.
func TestPodThatWaitsAndDoesNotServeIsLeftOut(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	harness.PoolOf(t, c, 1)
	k := keepWarm(t, c, 1)
	pod := k.awaitKept(t, c)
	now, err := c.API(t).CoreV1().Pods(c.Namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.FreezeAgent(t, string(now.UID))
	var both sync.WaitGroup
	for id, k := range map[string]*launcher.Kubernetes{"kept": k.Kubernetes, "dialled": c.Launcher()} {
		both.Go(func() {
			s, err := k.Launch(t.Context(), harness.Pooled(c, id))
			if err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			defer s.Close()
			if s.Start.Warm || !strings.Contains(s.Start.Cold, "its agent does not serve") {
				t.Errorf("%s: it starts as %+v", id, s.Start)
			}
		})
	}
	both.Wait()
	if names := waiting(t, c); !slices.Equal(names, []string{pod}) {
		t.Errorf("%q wait, and %s waited", names, pod)
	}
}

func TestKeepingConnectionsIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for _, n := range []int{-1, 0, 65} {
		if err := c.Launcher().KeepWarm(t.Context(), "warm", n); !errors.As(err, new(*launcher.SpecError)) {
			t.Errorf("%d connections: %v", n, err)
		}
	}
	limited := *c
	limited.Orchestrator = c.LimitedAccount(t, "limited", rule("pods", "get"))
	if err := limited.Launcher().KeepWarm(t.Context(), "warm", 1); !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("without the permission: %v", err)
	}
}

// Hosts count how their launches get on.
func TestTraceTellsHowALaunchGotItsPod(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	var counts launchtrace.Counts
	var told []string
	launch := func(spec launcher.Spec) {
		ctx := launchtrace.WithTrace(counts.Counting(t.Context()), &launchtrace.Trace{
			GotPod:   func(p launchtrace.Pod) { told = append(told, string(p.Start)+" "+p.Name, p.Why) },
			Answered: func() { told = append(told, "answered") },
			Ready:    func() { told = append(told, "ready") },
		})
		s, err := k.Launch(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if told[0] = strings.TrimSuffix(told[0], s.PodName()); len(told) != 4 {
			t.Errorf("told %q", told)
		}
	}
	other := harness.Pooled(c, "b")
	other.Take.Pool = "other"
	for _, step := range []struct {
		spec launcher.Spec
		want []string
	}{
		{harness.Pooled(c, "a"), []string{"warm ", "", "answered", "ready"}},
		{harness.Pooled(c, "a"), []string{"adopted ", "", "answered", "ready"}},
		{other, []string{"cold ", "the pool has no pods", "answered", "ready"}},
	} {
		told = nil
		if launch(step.spec); !slices.Equal(told, step.want) {
			t.Errorf("told %q, want %q", told, step.want)
		}
	}
	for start, count := range counts.Starts() {
		if count.Launches != 1 || count.Time <= 0 {
			t.Errorf("%s: %+v", start, count)
		}
	}
	if len(counts.Starts()) != 3 || counts.Misses() != 1 {
		t.Errorf("%d kinds of starts, %d misses", len(counts.Starts()), counts.Misses())
	}
}
