package agentsandbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// fails launches a sandbox that cannot start, and returns the error.
func fails(t *testing.T, l *agentsandbox.Launcher, spec launcher.Spec) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	s, err := l.Launch(ctx, spec)
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

// A newer orchestrator may keep older ones from its objects.
func TestObjectOfANewerForm(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		harness.Launch(t, l, spec).Close()
		resource := sandboxes
		if spec.Take.Pool != "" {
			resource = sandboxClaims
		}
		name, patch := podmeta.NameOf(spec.ID), []byte(`{"metadata": {"annotations": {"`+podmeta.AnnotationForm+`": "1000"}}}`)
		before, err := resourceOf(t, c, resource).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, act := range []struct {
			what string
			do   func() error
		}{
			{"launch", func() error { _, err := l.Launch(t.Context(), spec); return err }},
			{"open", func() error { _, err := l.Open(t.Context(), spec.ID); return err }},
			{"extend", func() error { _, err := l.Extend(t.Context(), spec.ID, 48*time.Hour); return err }},
			{"pause", func() error { return l.Pause(t.Context(), spec.ID) }},
			{"terminate", func() error { return l.Terminate(t.Context(), spec.ID) }},
		} {
			if err := act.do(); !errors.Is(err, launcher.ErrNewer) {
				t.Errorf("%s: %v", act.what, err)
			}
		}
		now, err := resourceOf(t, c, resource).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before.GetAnnotations(), now.GetAnnotations()); diff != "" || now.GetGeneration() != before.GetGeneration() || now.GetDeletionTimestamp() != nil {
			t.Errorf("the object has changed: %s", diff)
		}
	})
}

// What a template lacks is an error, and not left out.
func TestDemandThatTheTemplateDoesNotMeet(t *testing.T) {
	t.Parallel()
	c := withController(t)
	makePool(t, c, 1, c.Spec(""))
	for name, change := range map[string]func(*launcher.Spec){
		"a RuntimeClass":           func(s *launcher.Spec) { s.Pod.RuntimeClass = "gvisor" },
		"a read-only root":         func(s *launcher.Spec) { s.Pod.ReadOnlyRoot = true },
		"another image":            func(s *launcher.Spec) { s.Pod.Image = "podagent.test/other:dev" },
		"another size":             func(s *launcher.Spec) { s.Pod.Workspace.Size = resource.MustParse("20Gi") },
		"a class of resources":     func(s *launcher.Spec) { s.Pod.PriorityClass = "high" },
		"an account of the pod's":  func(s *launcher.Spec) { s.Pod.ServiceAccount = "other" },
		"a required user mapping":  func(s *launcher.Spec) { s.Pod.UserNamespace = launcher.Require },
		"another Pod Security one": func(s *launcher.Spec) { s.Pod.Profile = launcher.Baseline },
	} {
		spec := c.Spec("a")
		spec.Take.Pool = warm
		change(&spec)
		if err := fails(t, launcherOf(c), spec); !errors.Is(err, launcher.ErrDrift) {
			t.Errorf("%s: %v", name, err)
		}
	}
	checkNothingLeft(t, c)
}

func TestWrongSpecIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	c := withController(t)
	for name, change := range map[string]func(*launcher.Spec){
		"a label of podagent's":      func(s *launcher.Spec) { s.Pod.Labels = map[string]string{podmeta.LabelPool: "warm"} },
		"a label of agent-sandbox's": func(s *launcher.Spec) { s.Pod.Labels = map[string]string{"agents.x-k8s.io/sandbox-name": "x"} },
		"a negative lifetime":        func(s *launcher.Spec) { s.Pod.Lifetime = -time.Second },
		"a negative deadline":        func(s *launcher.Spec) { s.Pod.ActiveDeadline = -time.Second },
		"a negative heartbeat":       func(s *launcher.Spec) { s.Take.Heartbeat = -5 * time.Second },
		"a large environment":        func(s *launcher.Spec) { s.Env = []string{"A=" + strings.Repeat("x", 200<<10)} },
		"a command of the image's":   func(s *launcher.Spec) { s.Pod.Main = []string{"true"} },
		"a claim without an id":      func(s *launcher.Spec) { s.ID, s.Pod.Workspace.Keep = "", true },
	} {
		for _, pool := range []string{"", warm} {
			spec := c.Spec("a")
			spec.Take.Pool = pool
			change(&spec)
			if err := fails(t, launcherOf(c), spec); !errors.As(err, new(*launcher.SpecError)) {
				t.Errorf("%s, pool %q: %v", name, pool, err)
			}
		}
	}
	checkNothingLeft(t, c)
}

// A Sandbox that waits in a pool, or belongs to a claim, has no other name.
func TestSandboxOfAPoolIsNotOpenedByName(t *testing.T) {
	t.Parallel()
	c := withController(t)
	makePool(t, c, 1, c.Spec(""))
	list, err := resourceOf(t, c, sandboxes).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range list.Items {
		if _, err := launcherOf(c).Open(t.Context(), object.GetName()); !errors.Is(err, launcher.ErrNotOurs) {
			t.Errorf("opening a Sandbox that waits: %v", err)
		}
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
	if err := fails(t, launcherOf(c), spec); !errors.Is(err, agentsandbox.ErrNoWarmPool) {
		t.Errorf("without the pool: %v", err)
	}
	checkFinding(t, c, warm, "warm pool", agentsandbox.ErrNoWarmPool)
	text, err := launcherOf(c).Template(t.Context(), warm, 1, c.Spec(""))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := launchertest.Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if object.GetKind() == "SandboxWarmPool" {
			data, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			apply(t, c, data)
		}
	}
	if err := fails(t, launcherOf(c), spec); !errors.Is(err, agentsandbox.ErrNoTemplate) {
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
				if err := fails(t, launcherOf(c), spec); !errors.Is(err, want.class) {
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
