package e2e

// One sandbox is described without a list, with the labels that it was made with.

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// wantFound expects that a sandbox is soon found in a state, as List describes it. The kubelet says a
// little late that a container runs.
func wantFound(t *testing.T, l launcher.Launcher, id string, want launcher.State) launcher.Summary {
	t.Helper()
	var found launcher.Summary
	harness.Await(t, fmt.Sprintf("%s to be found %s", id, want), func() bool {
		var err error
		if found, err = l.Find(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return found.State == want
	})
	list, err := l.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, listed := range list {
		if listed.ID != id {
			continue
		}
		listed.Heartbeat = found.Heartbeat // that in a Lease is later
		if list, one := listed.Resources, found.Resources; !list.Cpu().Equal(*one.Cpu()) || !list.Memory().Equal(*one.Memory()) {
			t.Errorf("found  %v\nlisted %v", one, list)
		}
		listed.Resources, listed.Lifetime = found.Resources, found.Lifetime // only lists promise the rest
		if got, want := fmt.Sprintf("%+v", found), fmt.Sprintf("%+v", listed); got != want {
			t.Errorf("found  %s\nlisted %s", got, want)
		}
		return found
	}
	t.Fatalf("%s is found but not listed: %+v", id, list)
	return found
}

func wantNotFound(t *testing.T, l launcher.Launcher, id string) {
	t.Helper()
	if s, err := l.Find(t.Context(), id); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("Find of %s: %+v, %v", id, s, err)
	}
}

func TestFindDescribesOneSandboxThatRunsAndNoneAfterwards(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		wantNotFound(t, l, spec.ID)
		spec.Labels = map[string]string{"team": "red"}
		s := harness.Launch(t, l, spec)
		if found := wantFound(t, l, spec.ID, launcher.Running); !maps.Equal(found.Labels, spec.Labels) || found.Workdir != s.Workdir {
			t.Errorf("found %+v", found)
		}
		wantNotFound(t, l, spec.ID+"-other")
		if err := s.Terminate(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNotFound(t, l, spec.ID)
	})
}

// The permissions of deploy/rbac.yaml are enough, and nothing is listed.
func TestFindDescribesOneSandboxByLookupsAlone(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	k := c.Launcher()
	calls := count(k, func(*http.Request) bool { return true })
	lists := count(k, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/pods") || strings.HasSuffix(r.URL.Path, "/leases") || strings.HasSuffix(r.URL.Path, "/persistentvolumeclaims")
	})
	if _, err := k.Find(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if calls.Load() != 2 || lists.Load() != 0 {
		t.Errorf("one that runs takes %d calls, %d of them lists", calls.Load(), lists.Load())
	}
	wantNotFound(t, k, "none")
	if calls.Load() != 5 || lists.Load() != 0 {
		t.Errorf("with one that there is not, that takes %d calls, %d of them lists", calls.Load(), lists.Load())
	}
}

func TestFindDescribesOneSandboxThatIsPaused(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	s := harness.Launch(t, k, keptSpec(t, c, "a"))
	wantFound(t, k, "a", launcher.Running)
	pause(t, k, s)
	wantFound(t, k, "a", launcher.Paused)
	without := c.Launcher()
	without.Config = c.LimitedAccount(t, "without", rule("pods", "get", "list"), leaseRule("get", "list"))
	wantNotFound(t, without, "a") // nor listed
	terminate(t, k, "a")
	wantNotFound(t, k, "a")
}

func TestFindDescribesOneSandboxThatHasEnded(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	s := harness.Launch(t, k, c.Spec("a"))
	c.EndPod(t, s.PodName())
	wantFound(t, k, "a", launcher.Ended)
}

func TestFindDescribesOneSandboxThatIsPending(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	spec.Pod.Patch = []byte(`{"spec": {"schedulerName": "nobody"}}`)
	launched := make(chan error, 1)
	go func() {
		_, err := k.Launch(t.Context(), spec)
		launched <- err
	}()
	harness.Await(t, "its pod", func() bool {
		_, err := k.Find(t.Context(), "a")
		return err == nil
	})
	wantFound(t, k, "a", launcher.Pending)
	terminate(t, k, "a")
	<-launched
	wantNotFound(t, k, "a")
}

func TestFindDescribesOneSandboxOfAPool(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 3)
	spec := specOf("a")
	spec.Labels = map[string]string{"team": "red"}
	s := launchWarm(t, k, spec)
	if found := wantFound(t, k, "a", launcher.Running); found.Pod != s.PodName() || !maps.Equal(found.Labels, spec.Labels) {
		t.Errorf("found %+v", found)
	}
	pause(t, k, s)
	if found := wantFound(t, k, "a", launcher.Paused); !maps.Equal(found.Labels, spec.Labels) {
		t.Errorf("found %+v", found)
	}
	resumed, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if found := wantFound(t, k, "a", launcher.Running); found.Pod != podmeta.NameOf("a") || !maps.Equal(found.Labels, spec.Labels) {
		t.Errorf("found %+v", found)
	}
	pause(t, k, resumed)
	terminate(t, k, "a")
	wantNotFound(t, k, "a")
}

func TestFindOfAPodThatOthersMadeSaysSo(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	pod := podWith(`{"schedulerName": "nobody", "containers": [{"name": "agent", "image": "none",
		"securityContext": {"runAsNonRoot": true, "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}}}]}`)
	pod.Name, pod.Namespace = podmeta.NameOf("a"), c.Namespace
	if _, err := c.API(t).CoreV1().Pods(c.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Launcher().Find(t.Context(), "a"); !errors.Is(err, launcher.ErrNotOurs) || s.ID != "" || s.Pod != "" {
		t.Errorf("Find: %+v, %v", s, err)
	}
}

func TestLabelsStayThroughPauseAndResume(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "a")
	made := map[string]string{"team": "red", "example.com/empty": ""}
	spec.Labels = made
	s := harness.Launch(t, k, spec)
	has := func(when string, state launcher.State) {
		t.Helper()
		if found := wantFound(t, k, "a", state); !maps.Equal(found.Labels, made) {
			t.Errorf("%s it has the labels %v", when, found.Labels)
		}
	}
	has("at first", launcher.Running)
	if pod := podOf(t, c, "a"); pod.Labels["team"] != "" {
		t.Errorf("the pod has the labels %v, which a Service could select by", pod.Labels)
	}
	spec.Labels = map[string]string{"team": "blue"}
	if again := harness.Launch(t, k, spec); len(again.Drift) > 0 {
		t.Errorf("drift: %q", again.Drift)
	}
	has("after a launch with others", launcher.Running)
	pause(t, k, s)
	has("paused", launcher.Paused)
	resumed, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	has("resumed", launcher.Running)
	pause(t, k, resumed)
	spec.Labels = nil
	has("paused again", launcher.Paused)
	launched := harness.Launch(t, k, spec)
	has("after a launch that resumed it", launcher.Running)
	pause(t, k, launched)
	has("and paused", launcher.Paused)
	resumed, err = k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	has("and resumed", launcher.Running)
}
