package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about the size of a workspace, and the claim of a kept
// one.

func TestClaimOfAnotherSizeIsDrift(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), keptSpec(t, c, "job")
	start := func(spec launcher.Spec, want int) {
		t.Helper()
		s := harness.Launch(t, k, spec)
		defer s.Close()
		if len(s.Drift) != want || want > 0 && !slices.Contains(s.Drift, "the claim's size is 1Gi, not 2Gi") {
			t.Errorf("drift: %q", s.Drift)
		}
	}
	start(spec, 0)
	larger := spec
	larger.Pod.Workspace.Size = resource.MustParse("2Gi")
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	larger.Take.OnDrift = launcher.DriftError
	if _, err := k.Launch(t.Context(), larger); !errors.Is(err, launcher.ErrDrift) {
		t.Errorf("Launch: %v", err)
	}
	if list, err := k.List(t.Context()); err != nil || len(list) != 1 || list[0].State != launcher.Paused {
		t.Errorf("after that: %+v, %v", list, err)
	}
	start(spec, 0)
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	larger.Take.OnDrift = launcher.DriftSay
	start(larger, 1)
	start(larger, 1) // the existing pod was made with this size, and has its claim
	larger.Take.OnDrift = launcher.DriftError
	if _, err := k.Launch(t.Context(), larger); !errors.Is(err, launcher.ErrDrift) {
		t.Errorf("Launch of a running sandbox: %v", err)
	}
}

func TestPodWhoseWorkspaceHoldsTooMuchIsEvicted(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec, k := c.Spec("job"), c.Launcher()
	spec.Pod.Workspace.Size = resource.MustParse("16Mi")
	s := harness.Launch(t, k, spec)
	_ = s.Shell(t.Context(), "head -c 64M /dev/zero > big").Run() // it may end with the pod
	var err error
	harness.Await(t, "the end of the pod", func() bool {
		_, err = s.Stat(t.Context(), "big")
		return errors.Is(err, launcher.ErrStale)
	})
	if !strings.Contains(err.Error(), "Evicted") {
		t.Errorf("a call: %v", err)
	}
	if _, err := k.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrStale) || !strings.Contains(err.Error(), "Evicted") {
		t.Errorf("a launch: %v", err)
	}
	spec.Take.OnStale = launcher.StaleRecreate
	harness.Put(t, harness.Launch(t, k, spec), "file", "x")
}

func TestWorkspaceHasItsSize(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("job")
	spec.Pod.Workspace.Size = resource.MustParse("1Gi")
	s := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, s, "file", "x")
	for _, v := range podOf(t, c, "job").Spec.Volumes {
		if v.Name == "workspace" && v.EmptyDir.SizeLimit.Cmp(spec.Pod.Workspace.Size) == 0 {
			return
		}
	}
	t.Error("the volume at the workdir has no limit")
}

func TestClaimWithoutPermissionIsForbidden(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("job")
	spec.Pod.Workspace.Keep = true
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrForbidden) || apierrors.IsNotFound(err) {
		t.Errorf("Launch: %v", err)
	}
}

// gated returns the patch for a pod in which a script runs before the agent starts.
func gated(c *launchertest.Cluster, script string) []byte {
	return fmt.Appendf(nil, `spec:
  initContainers:
    - name: gate
      image: %s
      command: [sh, -c, %q]
      volumeMounts: [{name: workspace, mountPath: /workspace}]
      securityContext:
        allowPrivilegeEscalation: false
        capabilities: {drop: [ALL]}
`, c.Image, script)
}

func TestOpenAndResumeWaitAsLongAsTheLaunchMay(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), keptSpec(t, c, "job")
	spec.Take.ReadyTimeout = 90 * time.Second
	spec.Pod.Patch = gated(c, "while [ -e /workspace/hold ]; do sleep 0.1; done")
	s := harness.Launch(t, k, spec)
	harness.Put(t, s, "hold", "")
	if err := errors.Join(s.Close(), k.Pause(t.Context(), "job")); err != nil {
		t.Fatal(err)
	}
	resumed := make(chan error, 1)
	go func() {
		_, err := k.Resume(t.Context(), "job")
		resumed <- err
	}()
	var opened error
	harness.Await(t, "the pod", func() bool {
		_, opened = k.Open(t.Context(), "job")
		return !errors.Is(opened, launcher.ErrPaused)
	})
	for verb, err := range map[string]error{"Resume": <-resumed, "Open": opened} {
		if !errors.Is(err, launcher.ErrNotReady) || !strings.Contains(err.Error(), "after 1m30s") {
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// How the pod is made is part of the claim's creation: no other request writes it, and
// at no time is there a claim without it.
func TestClaimHasTheNoteOfItsPodFromTheBeginning(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "job")
	k.Config = c.LimitedAccount(t, "limited",
		rule("pods", "get", "list", "watch", "create", "patch", "delete"), rule("pods/portforward", "get", "create"),
		rule("persistentvolumeclaims", "get", "list", "create", "delete"),
		leaseRule("get"))
	s, err := k.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	harness.Put(t, s, "file", "kept")
	if err := errors.Join(s.Close(), c.Launcher().Pause(t.Context(), "job")); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Resume(t.Context(), "job"); !errors.Is(err, launcher.ErrForbidden) || !strings.Contains(err.Error(), "patch") {
		t.Errorf("Resume without the permission to take the claim: %v", err)
	}
	resumed, err := c.Launcher().Resume(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	wantKept(t, resumed)
}

// Controllers write annotations into a claim, too, when it gets its volume.
func TestTerminateRemovesAClaimThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	s := harness.Launch(t, k, keptSpec(t, c, "job"))
	if err := s.Command(t.Context(), "sleep", "600").Start(); err != nil { // its end takes a moment
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- k.Terminate(t.Context(), "job") }()
	claims := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace)
	harness.Await(t, "the end of the claim", func() bool {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/seen-at":%q}}}`, time.Now())
		_, err := claims.Patch(t.Context(), s.PodName(), types.MergePatchType, patch, metav1.PatchOptions{})
		return apierrors.IsNotFound(err) || len(ended) > 0
	})
	if err := <-ended; err != nil {
		t.Errorf("Terminate: %v", err)
	}
	if left := claimsIn(t, c); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestTerminateWithoutPermissionForTheClaimIsForbidden(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.Launch(t, c.Launcher(), keptSpec(t, c, "job")).Close()
	if err := c.Launcher().Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	k := c.Launcher()
	k.Config = c.LimitedAccount(t, "limited",
		rule("pods", "get", "list", "watch", "create", "patch", "delete"), rule("persistentvolumeclaims", "get", "list"), leaseRule("get"))
	if err := k.Terminate(t.Context(), "job"); !errors.Is(err, launcher.ErrForbidden) || strings.Contains(err.Error(), "still being deleted") {
		t.Errorf("Terminate: %v", err)
	}
}

// When a sandbox is closed, its pod may be gone, and the lease with it.
func TestCloseDeletesTheWorkspaceOfAPodThatIsGone(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{false, true} {
		t.Run(fmt.Sprintf("exclusive %t", exclusive), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			spec := keptSpec(t, c, "job")
			spec.OnClose, spec.Take.Exclusive = launcher.CloseDelete, exclusive
			s := harness.Launch(t, c.Launcher(), spec)
			deletePod(t, c, s.PodName())
			harness.Await(t, "the end of the pod and its lease", func() bool {
				_, err := c.API(t).CoreV1().Pods(c.Namespace).Get(t.Context(), s.PodName(), metav1.GetOptions{})
				leases, listErr := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), harness.NoHeartbeats)
				return apierrors.IsNotFound(err) && listErr == nil && len(leases.Items) == 0
			})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			harness.Await(t, "the end of the claim", func() bool { return len(claimsIn(t, c)) == 0 })
		})
	}
}

// Whichever comes first, a further Terminate leaves nothing behind.
func TestTerminateBesideAResumeOfAKeptWorkspace(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for range 3 {
		harness.Launch(t, c.Launcher(), keptSpec(t, c, "job")).Close()
		if err := c.Launcher().Pause(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if err := c.Launcher().Terminate(t.Context(), "job"); err != nil {
				t.Errorf("Terminate: %v", err)
			}
		})
		both.Go(func() {
			s, err := c.Launcher().Resume(t.Context(), "job")
			if err != nil { // it came too late
				t.Log(err)
				return
			}
			s.Close()
		})
		both.Wait()
		terminate(t, c.Launcher(), "job")
		if left := claimsIn(t, c); len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}
}

func claimsIn(t *testing.T, c *launchertest.Cluster) []string {
	t.Helper()
	list, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, claim := range list.Items {
		names = append(names, claim.Name)
	}
	return names
}

func TestLaunchThatFailsLeavesNoClaimButTheOneThatWasThere(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "job")
	bad := spec
	bad.Pod.Image = "podagent.test/none:dev"
	if _, err := k.Launch(t.Context(), bad); !errors.Is(err, launcher.ErrImage) {
		t.Fatalf("Launch: %v", err)
	}
	harness.Await(t, "the claim's end", func() bool { return len(claimsIn(t, c)) == 0 })
	spec.Pod.Workspace.StorageClass = c.Storage(t, 1)
	harness.Put(t, harness.Launch(t, k, spec), "file", "kept")
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Launch(t.Context(), bad); !errors.Is(err, launcher.ErrImage) {
		t.Fatalf("Launch: %v", err)
	}
	wantKept(t, harness.Launch(t, k, spec))
}

// A launch that fails late, when others already use the sandbox, removes nothing.
func TestLaunchThatFailsLateLeavesTheClaimThatOthersUse(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "job")
	late := spec
	late.Git = &launcher.Git{URL: "http://10.255.255.1/x.git", Timeout: 20 * time.Second}
	failed := make(chan error, 1)
	go func() {
		_, err := k.Launch(t.Context(), late)
		failed <- err
	}()
	harness.Await(t, "the pod", func() bool { s, err := k.Open(t.Context(), "job"); return err == nil && s.Close() == nil })
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	s, err := k.Resume(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	harness.Put(t, s, "file", "precious")
	s.Close()
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; err == nil {
		t.Error("the launch from nowhere succeeded")
	}
	if s, err = k.Resume(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := harness.Get(t, s, "file"); got != "precious" {
		t.Errorf("it has %q", got)
	}
}
