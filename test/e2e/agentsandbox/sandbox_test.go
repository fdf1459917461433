package agentsandbox

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// warm is the warm pool of the tests.
const warm = "warm"

// modes are the ways to a pod: a Sandbox of the sandbox's own, or a claim on a warm pool.
var modes = map[string]func(t *testing.T, c *launchertest.Cluster, id string) launcher.Spec{
	"direct": func(_ *testing.T, c *launchertest.Cluster, id string) launcher.Spec { return c.Spec(id) },
	"claim": func(t *testing.T, c *launchertest.Cluster, id string) launcher.Spec {
		makePool(t, c, 1, c.Spec(""))
		spec := c.Spec(id)
		spec.Take.Pool = warm
		return spec
	},
}

// inEachMode runs a test with the sandbox "a" of each mode.
func inEachMode(t *testing.T, test func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec)) {
	t.Parallel()
	for name, spec := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := withController(t)
			test(t, launcherOf(c), c, spec(t, c, "a"))
		})
	}
}

func TestEnvironmentAndProtectedPathsReachTheSandbox(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		spec.Env, spec.Protected = []string{"GREETING=hello"}, []string{"secret"}
		s := harness.Launch(t, l, spec)
		if out, _, _ := harness.Run(t, s, "echo $GREETING", nil); out != "hello\n" {
			t.Errorf("the environment says %q", out)
		}
		if err := s.WriteFile(t.Context(), "secret", nil, 0o600); err == nil {
			t.Error("a protected path was written")
		}
		if !s.Created {
			t.Error("the sandbox was not created")
		}
		if pooled := spec.Take.Pool != ""; s.Start.Warm != pooled {
			t.Errorf("it starts as %+v", s.Start)
		}
	})
}

func TestSandboxIsAdoptedListedAndTerminated(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		s := harness.Launch(t, l, spec)
		harness.Put(t, s, "file", "content")
		again := harness.Launch(t, launcherOf(c), spec)
		if got := harness.Get(t, again, "file"); got != "content" || again.Created || again.PodName() != s.PodName() {
			t.Errorf("the second launch gets %q in pod %s, created: %v", got, again.PodName(), again.Created)
		}
		opened, err := launcherOf(c).Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		list, err := l.List(t.Context())
		if err != nil || len(list) != 1 || list[0].ID != "a" || list[0].State != launcher.Running || list[0].Pod != s.PodName() || list[0].Workdir != s.Workdir {
			t.Errorf("the list is %+v: %v", list, err)
		}
		if err := s.Terminate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNotFound) {
			t.Errorf("opening a terminated sandbox: %v", err)
		}
		if err := l.Terminate(t.Context(), "a"); err != nil {
			t.Errorf("terminating it again: %v", err)
		}
	})
}

// makePool applies what "orchestrator agent-sandbox template" prints, and waits until so many
// Sandboxes are ready.
func makePool(t *testing.T, c *launchertest.Cluster, size int, spec launcher.Spec) {
	t.Helper()
	text, err := launcherOf(c).Template(t.Context(), warm, size, spec)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, text)
	harness.Await(t, "a warm pool", func() bool {
		now, err := resourceOf(t, c, warmPools).Get(t.Context(), warm, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ready, _, _ := unstructured.NestedInt64(now.Object, "status", "readyReplicas")
		return ready == int64(size)
	})
}

func TestListSaysWhatASandboxUses(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, _ *launchertest.Cluster, spec launcher.Spec) {
		harness.Launch(t, l, spec)
		list, err := l.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("the list is %v: %v", list, err)
		}
		for name, want := range map[corev1.ResourceName]string{
			corev1.ResourceCPU: launcher.DefaultCPULimit, corev1.ResourceMemory: launcher.DefaultMemoryLimit, corev1.ResourceStorage: launcher.DefaultWorkspaceSize,
		} {
			if got := list[0].Resources[name]; got.String() != want {
				t.Errorf("it has %s of %s, want %s", got.String(), name, want)
			}
		}
	})
}
