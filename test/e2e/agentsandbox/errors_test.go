package agentsandbox

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// fails launches a sandbox that cannot start, and returns the error.
func fails(t *testing.T, c *launchertest.Cluster, spec launcher.Spec) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	s, err := launcherOf(c).Launch(ctx, spec)
	if err == nil {
		s.Close()
		t.Fatal("the launch succeeds")
	}
	if ctx.Err() != nil {
		t.Fatalf("the launch hangs: %v", err)
	}
	return err
}

// checkNothingLeft checks that a launch that failed has left no objects.
func checkNothingLeft(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	harness.Await(t, "the end of what a failed launch made", func() bool {
		list, err := launcherOf(c).List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 0
	})
}

// This test runs before the others, which install agent-sandbox: it has no t.Parallel.
func TestClusterWithoutAgentSandbox(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	controller.Lock()
	defer controller.Unlock()
	if controller.process != nil {
		t.Fatal("a test has installed agent-sandbox before this one")
	}
	admin := *c
	admin.Orchestrator = c.Admin
	removeResources(t, c)
	pooled := c.Spec("a")
	pooled.Take.Pool = warm
	for _, spec := range []launcher.Spec{c.Spec("a"), pooled} {
		if err := fails(t, &admin, spec); !errors.Is(err, agentsandbox.ErrNotInstalled) {
			t.Errorf("without the resources: %v", err)
		}
	}
	checkFinding(t, &admin, "", "resources", agentsandbox.ErrNotInstalled)
	installResources(t, c)
	for _, spec := range []launcher.Spec{c.Spec("a"), pooled} {
		if err := fails(t, &admin, spec); !errors.Is(err, agentsandbox.ErrNoController) {
			t.Errorf("without a controller: %v", err)
		}
	}
	checkNothingLeft(t, &admin)
}

// removeResources removes what an earlier run has installed.
func removeResources(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	api := crdsOf(t, c)
	for _, name := range []string{
		"sandboxes.agents.x-k8s.io", "sandboxclaims.extensions.agents.x-k8s.io",
		"sandboxtemplates.extensions.agents.x-k8s.io", "sandboxwarmpools.extensions.agents.x-k8s.io",
	} {
		if err := api.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		harness.Await(t, "the end of "+name, func() bool {
			_, err := api.Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
}

// checkFinding checks that a check fails with an error.
func checkFinding(t *testing.T, c *launchertest.Cluster, pool, name string, want error) {
	t.Helper()
	for f := range launcherOf(c).Check(t.Context(), launcher.Spec{Pod: c.Spec("").Pod, Take: launcher.Take{Pool: pool}}) {
		if f.Name == name {
			if f.Verdict != launcher.Failed || !errors.Is(f.Err, want) || f.Advice == "" {
				t.Errorf("the check %s says %+v", name, f)
			}
			return
		}
	}
	t.Errorf("there is no check %s", name)
}

func TestWarmPoolOrTemplateThatIsNotThere(t *testing.T) {
	t.Parallel()
	c := withController(t)
	spec := c.Spec("a")
	spec.Take.Pool = warm
	if err := fails(t, c, spec); !errors.Is(err, agentsandbox.ErrNoWarmPool) {
		t.Errorf("without the pool: %v", err)
	}
	checkFinding(t, c, warm, "warm pool", agentsandbox.ErrNoWarmPool)
	text, err := launcherOf(c).Template(t.Context(), warm, 1, c.Spec(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objectsOf(t, text) {
		if object.GetKind() == "SandboxWarmPool" {
			data, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			apply(t, c, data)
		}
	}
	if err := fails(t, c, spec); !errors.Is(err, agentsandbox.ErrNoTemplate) {
		t.Errorf("without the template: %v", err)
	}
	checkFinding(t, c, warm, "warm pool", agentsandbox.ErrNoTemplate)
	checkNothingLeft(t, c)
}

// A warm pool at zero is no error: the controller makes a pod then, and the launch says so.
func TestWarmPoolAtZeroStartsCold(t *testing.T) {
	t.Parallel()
	c := withController(t)
	makePool(t, c, 0, c.Spec(""))
	spec := c.Spec("a")
	spec.Take.Pool = warm
	s := harness.Launch(t, launcherOf(c), spec)
	if s.Start.Warm || s.Start.Cold == "" {
		t.Errorf("it starts as %+v", s.Start)
	}
}

func TestSandboxDeletedUnderAnOpenSession(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		s := harness.Launch(t, l, spec)
		cmd := s.Command(t.Context(), "sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		objects := resourceOf(t, c, sandboxes)
		list, err := objects.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range list.Items {
			if err := objects.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmd.Wait(); err == nil {
			t.Error("a command in it succeeds")
		}
		harness.Await(t, "a call that fails because the pod is gone", func() bool {
			_, err := s.Stat(t.Context(), ".")
			return errors.Is(err, launcher.ErrGone)
		})
	})
}

func TestPodsThatCannotStart(t *testing.T) {
	t.Parallel()
	c := withController(t)
	t.Run("because of", func(t *testing.T) {
		for name, want := range cannotStart {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				spec := c.Spec(name)
				want.change(&spec)
				if err := fails(t, c, spec); !errors.Is(err, want.class) {
					t.Error(err)
				}
			})
		}
	})
	checkNothingLeft(t, c)
}

// cannotStart are reasons why a pod does not start, and what changes a Spec so.
var cannotStart = map[string]struct {
	class  error
	change func(*launcher.Spec)
}{
	"its image": {launcher.ErrImage, func(s *launcher.Spec) { s.Pod.Image = "podagent.test/missing:dev" }},
	"the nodes": {launcher.ErrUnschedulable, func(s *launcher.Spec) { s.Pod.NodeSelector = map[string]string{"example.com/none": "true"} }},
	"admission": {launcher.ErrRejected, func(s *launcher.Spec) { s.Pod.Profile = launcher.Baseline }}, // the namespace is for restricted pods
}
