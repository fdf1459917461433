package launcher_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// launchFor launches a sandbox that ends with the test's namespace.
func launchFor(t *testing.T, l launcher.Launcher, spec launcher.Spec) *launcher.Sandbox {
	t.Helper()
	s, err := l.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func described(t *testing.T, k *launcher.Kubernetes, id string) launcher.Description {
	t.Helper()
	d, err := k.Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// describedWhen describes the sandbox until that shows what is wanted, which
// takes seconds at most.
func describedWhen(t *testing.T, k *launcher.Kubernetes, id string, wanted func(launcher.Description) bool) launcher.Description {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := k.Describe(ctx, id)
		if err == nil && wanted(d) {
			return d
		}
		if err != nil && !errors.Is(err, launcher.ErrNotFound) {
			t.Fatal(err)
		}
		select {
		case <-ctx.Done():
			t.Fatalf("sandbox %s stays as it is: %+v", id, d)
		case <-tick.C:
		}
	}
}

func TestDescribeOfARunningSandbox(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	k.Owner = "the test"
	spec := c.Spec("job")
	spec.Take.Exclusive, spec.Pod.Labels = true, map[string]string{"team": "a"}
	s := launchFor(t, k, spec)
	if err := s.Command(t.Context(), "podagent", "version").Run(); err != nil {
		t.Fatal(err)
	}
	started := func(e launcher.Event) bool { return e.Reason == "Started" && e.Type == "Normal" && e.Count == 1 }
	// The sandbox may answer before the kubelet has said that it runs.
	beat := describedWhen(t, k, "job", func(d launcher.Description) bool {
		return d.Phase == "Running" && d.IP != "" && d.Agent != nil && slices.ContainsFunc(d.Events, started)
	}).Heartbeat
	d := described(t, k, "job")
	if d.State != launcher.Running || d.Phase != "Running" || d.Reason != "" || d.Node == "" || d.IP == "" || d.Namespace != c.Namespace {
		t.Errorf("the pod is described as %+v", d)
	}
	if d.Pod != s.PodName() || d.Image != c.Image || d.Labels["team"] != "a" || !strings.HasPrefix(d.Owner, "the test/") || len(d.Problems) > 0 {
		t.Errorf("the pod is described as %+v", d)
	}
	if !d.KeyIsOurs || d.Key != c.Identity.AuthorizedKey().Fingerprint() {
		t.Errorf("its key is %q, ours: %v", d.Key, d.KeyIsOurs)
	}
	if !slices.ContainsFunc(d.Events, started) {
		t.Errorf("no event that it was started in %+v", d.Events)
	}
	if d.AgentErr != nil || d.Agent == nil || d.Agent.Workdir != s.Workdir || len(d.Processes) != 1 || !d.Processes[0].Status.Success() {
		t.Errorf("the agent is described as %+v, %+v: %v", d.Agent, d.Processes, d.AgentErr)
	}
	if !d.Heartbeat.Equal(beat) {
		t.Error("describing is a heartbeat")
	}
	if _, err := k.Describe(t.Context(), "another"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("describing what is not there: %v", err)
	}
}

func TestDescribeForAnotherIdentity(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	launchFor(t, c.Launcher(), c.Spec("job"))
	other, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	k := c.Launcher()
	k.Identity = &other
	// The container is seen to run only when the kubelet has said so.
	d := describedWhen(t, k, "job", func(d launcher.Description) bool { return d.Phase == "Running" })
	if d.KeyIsOurs || !errors.Is(d.AgentErr, launcher.ErrOtherKey) || d.Agent != nil {
		t.Errorf("ours: %v, agent %v: %v", d.KeyIsOurs, d.Agent, d.AgentErr)
	}
}

func TestDescribeOfAPodThatWaitsAndOneThatHasEnded(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	c.EndPod(t, launchFor(t, k, c.Spec("short")).PodName())
	waiting := c.Spec("big")
	waiting.Pod.Resources = requesting("cpu", "1000")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := k.Launch(ctx, waiting)
		ended <- err
	}()
	defer func() { cancel(); <-ended }()
	d := describedWhen(t, k, "big", func(d launcher.Description) bool { return len(d.Events) > 0 })
	if d.State != launcher.Pending || d.AgentErr == nil || d.Reason == "" || d.Events[0].Reason != "FailedScheduling" {
		t.Errorf("what waits is described as %+v", d)
	}
	d = describedWhen(t, k, "short", func(d launcher.Description) bool { return d.State == launcher.Ended })
	if !errors.Is(d.AgentErr, launcher.ErrStale) || d.Phase != "Failed" || d.Agent != nil {
		t.Errorf("what has ended is described as %+v", d)
	}
}
