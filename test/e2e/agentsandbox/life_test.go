package agentsandbox

// The life of a sandbox: pause and resume, its end, and what it is made of.

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

var (
	sandboxes     = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
	warmPools     = schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxwarmpools"}
	sandboxClaims = schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxclaims"}
)

// resourceOf is a resource in the test's namespace, as an administrator sees it.
func resourceOf(t *testing.T, c *launchertest.Cluster, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(resource).Namespace(c.Namespace)
}

// kept makes a Spec whose files outlive its pod: by its own Sandbox's claim, or by the template's.
var kept = map[string]func(t *testing.T, c *launchertest.Cluster) launcher.Spec{
	"direct": func(t *testing.T, c *launchertest.Cluster) launcher.Spec {
		spec := c.Spec("a")
		spec.Pod.Workspace = workspace(t, c, 1)
		return spec
	},
	"claim": func(t *testing.T, c *launchertest.Cluster) launcher.Spec {
		template := c.Spec("")
		template.Pod.Workspace = workspace(t, c, 2) // the pool makes another
		makePool(t, c, 1, template)
		spec := c.Spec("a")
		spec.Take.Pool = warm
		return spec
	},
}

// workspace is one that is kept, with storage for n of them.
func workspace(t *testing.T, c *launchertest.Cluster, n int) launcher.Workspace {
	t.Helper()
	return launcher.Workspace{Keep: true, StorageClass: c.Storage(t, n), Size: resource.MustParse("1Gi")}
}

func TestPauseKeepsTheFilesAndResumeTheEnvironment(t *testing.T) {
	t.Parallel()
	for name, make := range kept {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := withController(t)
			spec := make(t, c)
			spec.Env = []string{"GREETING=hello"}
			l := launcherOf(c)
			s := harness.Launch(t, l, spec)
			harness.Put(t, s, "file", "content")
			first := s.PodName()
			if err := l.Pause(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Stat(t.Context(), "."); !errors.Is(err, launcher.ErrGone) {
				t.Errorf("a call to a paused sandbox: %v", err)
			}
			if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrPaused) {
				t.Errorf("opening a paused sandbox: %v", err)
			}
			if list, err := l.List(t.Context()); err != nil || len(list) != 1 || list[0].State != launcher.Paused {
				t.Errorf("the list of a paused sandbox is %+v: %v", list, err)
			}
			again, err := launcherOf(c).Resume(t.Context(), "a") // by another orchestrator
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			out, _, _ := harness.Run(t, again, "cat file; echo $GREETING", nil)
			if out != "contenthello\n" {
				t.Errorf("the resumed sandbox %s (before: %s) has %q", again.PodName(), first, out)
			}
			if err := l.Terminate(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPauseThatWouldLoseFilesIsRefused(t *testing.T) {
	t.Parallel()
	c := withController(t)
	s := harness.Launch(t, launcherOf(c), c.Spec("a"))
	if err := launcherOf(c).Pause(t.Context(), "a"); !errors.Is(err, launcher.ErrNotKept) {
		t.Errorf("pausing a sandbox without a claim: %v", err)
	}
	if _, err := s.Stat(t.Context(), "."); err != nil {
		t.Error(err)
	}
}

func TestShutdownTimeEndsTheSandboxUnlessItIsExtended(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		spec.Pod.Lifetime = time.Minute // a launch may take many of them
		harness.Launch(t, l, spec)
		extended := time.Now()
		ends, err := l.Extend(t.Context(), "a", time.Hour)
		if err != nil || ends.Sub(extended) < time.Hour || ends.Sub(extended) > 2*time.Hour {
			t.Fatalf("it is extended until %v: %v", ends, err)
		}
		if sooner, err := l.Extend(t.Context(), "a", time.Minute); err != nil || sooner.Unix() != ends.Unix() {
			t.Errorf("a shorter time changes the end from %v to %v: %v", ends, sooner, err)
		}
		other := spec // it ends later than the first would have ended
		other.ID = "b"
		harness.Launch(t, l, other)
		harness.Await(t, "the end of the sandbox", func() bool {
			_, err := l.Open(t.Context(), "b")
			return errors.Is(err, launcher.ErrNotFound)
		})
		if _, err := l.Open(t.Context(), "a"); err != nil {
			t.Errorf("the sandbox that was extended: %v", err)
		}
	})
}

func TestIdleSandboxEndsItselfAndIsRecreated(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		spec.Pod.IdleTimeout = 15 * time.Second
		harness.Launch(t, l, spec).Close()
		harness.Await(t, "the end of an idle sandbox", func() bool {
			list, err := l.List(t.Context())
			return err == nil && len(list) == 1 && list[0].State == launcher.Ended
		})
		if _, err := l.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrStale) {
			t.Errorf("launching a sandbox that has ended: %v", err)
		}
		spec.Take.OnStale = launcher.StaleRecreate
		s := harness.Launch(t, l, spec)
		if _, err := s.Stat(t.Context(), "."); err != nil {
			t.Error(err)
		}
	})
}

// Launches of one id at once, with and without a pool, end in one sandbox.
func TestManyLaunchesOfOneIDMakeOneSandbox(t *testing.T) {
	t.Parallel()
	c := withController(t)
	pooled := modes["claim"](t, c, "a")
	names := make([]string, 6)
	var running sync.WaitGroup
	for i := range names {
		spec := pooled
		if i%2 == 0 {
			spec = c.Spec("a")
		}
		running.Go(func() {
			s, err := launcherOf(c).Launch(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			names[i] = s.PodName()
		})
	}
	running.Wait()
	for _, name := range names {
		if name != names[0] {
			t.Errorf("the launches got the pods %q", names)
			break
		}
	}
	if list, err := launcherOf(c).List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("there are %+v: %v", list, err)
	}
}

func TestTenantsVolumesAndLabels(t *testing.T) {
	t.Parallel()
	c := withController(t)
	c.Claim(t, c.Storage(t, 1), "shared")
	tenant := func(org string) launcher.Spec {
		spec := c.Spec(org)
		spec.Take.Pool = "none" // a claim on it would have no volumes of its own
		spec.Pod.Labels = map[string]string{"example.com/user": org}
		spec.Pod.Volumes = []launcher.Volume{{Claim: "shared", SubPath: "org/" + org + "/code", Path: "/workspace"}}
		return spec
	}
	a, b := harness.Launch(t, launcherOf(c), tenant("acme")), harness.Launch(t, launcherOf(c), tenant("umbra"))
	harness.Put(t, a, "mine", "acme's")
	if names := harness.Names(t, b, "."); len(names) != 0 {
		t.Errorf("another tenant sees %q", names)
	}
	if a.Start.Cold == "" {
		t.Error("the launch does not say why it did not use the pool")
	}
	selected := metav1.ListOptions{LabelSelector: "example.com/user=acme"}
	objects, err := resourceOf(t, c, sandboxes).List(t.Context(), selected)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := c.API(t).CoreV1().Pods(c.Namespace).List(t.Context(), selected)
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Items) != 1 || len(pods.Items) != 1 {
		t.Errorf("%d Sandboxes and %d pods have the label", len(objects.Items), len(pods.Items))
	}
}

func TestLazySandboxMakesNothingBeforeItsFirstCall(t *testing.T) {
	t.Parallel()
	c := withController(t)
	s, err := launcher.Lazy(launcherOf(c), c.Spec("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if list, err := launcherOf(c).List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("before its first call there are %+v: %v", list, err)
	}
	if _, err := s.Stat(t.Context(), "."); err != nil {
		t.Fatal(err)
	}
}

// What another client made from a template of ours is opened by its name, and never removed.
func TestObjectsOfAnotherClientAreOpenedByName(t *testing.T) {
	t.Parallel()
	c := withController(t)
	makePool(t, c, 1, c.Spec(""))
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "extensions.agents.x-k8s.io/v1beta1", "kind": "SandboxClaim",
		"metadata": map[string]any{"name": "theirs"},
		"spec":     map[string]any{"warmPoolRef": map[string]any{"name": warm}},
	}}
	made, err := resourceOf(t, c, sandboxClaims).Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := launcherOf(c)
	s, err := l.Open(t.Context(), "theirs")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	harness.Put(t, s, "file", "content")
	again, err := l.Open(t.Context(), "theirs")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := harness.Get(t, again, "file"); got != "content" {
		t.Errorf("opened again it has %q", got)
	}
	if err := l.Terminate(t.Context(), "theirs"); !errors.Is(err, launcher.ErrNotOurs) {
		t.Errorf("terminating another client's: %v", err)
	}
	if now, err := resourceOf(t, c, sandboxClaims).Get(t.Context(), "theirs", metav1.GetOptions{}); err != nil || now.GetUID() != made.GetUID() {
		t.Errorf("their claim: %v", err)
	}
}

// The permissions of deploy/agent-sandbox-rbac.yaml suffice, without those of rbac.yaml.
func TestTheRoleOfTheDeploymentSuffices(t *testing.T) {
	inEachMode(t, func(t *testing.T, _ *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		var role rbacv1.Role
		text, err := os.ReadFile(rbac)
		if err == nil {
			err = yaml.Unmarshal(text[:bytes.Index(text, []byte("\n---"))], &role)
		}
		if err != nil {
			t.Fatal(err)
		}
		limited := *c
		limited.Orchestrator = c.LimitedAccount(t, "limited", role.Rules...)
		l := launcherOf(&limited)
		spec.Take.Exclusive, spec.Pod.IdleTimeout, spec.Take.OnStale = true, 15*time.Second, launcher.StaleRecreate
		harness.Launch(t, l, spec).Close()
		harness.Await(t, "the end of an idle sandbox", func() bool {
			list, err := l.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(list) == 1 && list[0].State == launcher.Ended
		})
		harness.Launch(t, l, spec)
		for f := range l.Check(t.Context(), launcher.Spec{Pod: spec.Pod, Take: launcher.Take{Pool: spec.Take.Pool}}) {
			if f.Verdict == launcher.Failed {
				t.Errorf("%s: %v", f.Name, f.Err)
			}
		}
		if _, err := l.Extend(t.Context(), "a", 48*time.Hour); err != nil {
			t.Error(err)
		}
		if err := l.Terminate(t.Context(), "a"); err != nil {
			t.Error(err)
		}
	})
}
