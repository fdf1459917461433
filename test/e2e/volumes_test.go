package e2e

// Claims in pods: shared ones with subPath, and a sandbox's own.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// tenant returns the Spec for a workspace of an organisation, with three
// directories of the shared claim.
func tenant(c *launchertest.Cluster, org, workspace string) launcher.Spec {
	spec := c.Spec(org + "/" + workspace)
	base := fmt.Sprintf("org/%s/workspace/%s/", org, workspace)
	spec.Pod.Volumes = []launcher.Volume{
		{Claim: "shared", SubPath: base + "code", Path: "/workspace"},
		{Claim: "shared", SubPath: base + "skills", Path: "/skills", ReadOnly: org == "reader"},
		{Claim: "shared", SubPath: base + "memory", Path: "/memory"},
	}
	return spec
}

func terminate(t *testing.T, l launcher.Launcher, id string) {
	t.Helper()
	if err := l.Terminate(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func TestTenantsOnOneClaim(t *testing.T) {
	t.Parallel()
	for _, profile := range []launcher.Profile{launcher.Restricted, launcher.Baseline} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, profile)
			c.Claim(t, c.Storage(t, 1), "shared")
			k := c.Launcher()
			acme, umbra := tenant(c, "acme", "alpha"), tenant(c, "umbra", "alpha")
			acme.Pod.Profile, umbra.Pod.Profile = profile, profile
			a, b := harness.Launch(t, k, acme), harness.Launch(t, k, umbra)
			for _, dir := range []string{"/workspace", "/skills", "/memory"} {
				harness.Put(t, a, dir+"/mine", "acme's "+dir)
				harness.Put(t, b, dir+"/mine", "umbra's "+dir)
			}
			checkNothingOf(t, b, "umbra's", "acme's")
			terminate(t, k, acme.ID)
			a = harness.Launch(t, k, acme)
			if !a.Created {
				t.Error("the sandbox was not created anew")
			}
			for _, dir := range []string{"/workspace", "/skills", "/memory"} {
				if got := harness.Get(t, a, dir+"/mine"); got != "acme's "+dir {
					t.Errorf("%s/mine has %q", dir, got)
				}
			}
			checkNothingOf(t, a, "acme's", "umbra's")
			_, errOut, status := harness.Run(t, a, "cd /memory && touch x && mkdir d && mv x d/ && rm -r d", nil)
			if status.Code != 0 {
				t.Error(errOut)
			}
		})
	}
}

// checkNothingOf searches for another tenant's text through all paths and links
// that a tenant can use, with commands and with the agent's calls. The tenant's own
// text must be found.
func checkNothingOf(t *testing.T, s *launcher.Sandbox, own, others string) {
	t.Helper()
	mine := searchAround(t, s, own)
	for _, line := range []string{"command: /workspace/mine:", "command: /skills/mine:", "command: /memory/mine:", "command: /skills/up/memory/mine:", "agent: /memory/mine:"} {
		if !strings.Contains(mine, line) {
			t.Errorf("the search of the tenant's own files did not find %q:\n%s", line, mine)
		}
	}
	if found := searchAround(t, s, others); found != "" {
		t.Errorf("found of another tenant's:\n%s", found)
	}
	script := "ls /org /workspace/../org /skills/up/org /skills/up/workspace /memory/cwd/org 2>/dev/null | grep -e acme -e umbra"
	if out, _, _ := harness.Run(t, s, script, nil); out != "" {
		t.Errorf("there is %q", out)
	}
}

// searchAround returns the places of a text.
func searchAround(t *testing.T, s *launcher.Sandbox, text string) string {
	t.Helper()
	script := `ln -sfn / /workspace/root; ln -sfn ../../../.. /skills/up; ln -sfn /proc/1/root /memory/one; ln -sfn /proc/self/cwd/../.. /memory/cwd
cd /workspace && grep -rIs --exclude-dir=proc --exclude-dir=sys -e "` + text + `" / /workspace/.. /skills/../.. /skills/up/ /memory/one/ /memory/cwd/`
	out, _, _ := harness.Run(t, s, script, nil)
	var found strings.Builder
	for line := range strings.Lines(out) {
		found.WriteString("command: " + line)
	}
	for r, err := range s.Grep(t.Context(), text, fsops.GrepOptions{Paths: []string{"/workspace", "/skills", "/memory", "/skills/up/memory"}, Hidden: true}) {
		if err == nil && r.Kind == fsops.GrepMatch {
			fmt.Fprintf(&found, "agent: %s:%s\n", r.Path, r.Text)
		}
	}
	return found.String()
}

// A tenant's link must not lead the node's kubelet out of the claim.
func TestSubPathThroughALinkOutOfTheClaimIsRefused(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Claim(t, c.Storage(t, 1), "shared")
	k := c.Launcher()
	a := harness.Launch(t, k, tenant(c, "acme", "a"))
	script := "ln -s /etc absolute; ln -s ../../../../../../../../../../../../../etc relative"
	if _, errOut, status := harness.Run(t, a, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	for _, link := range []string{"absolute", "relative"} {
		evil := c.Spec(link)
		evil.Pod.Volumes = []launcher.Volume{{Claim: "shared", SubPath: "org/acme/workspace/a/code/" + link, Path: "/workspace"}}
		_, err := k.Launch(t.Context(), evil)
		if !errors.Is(err, launcher.ErrCannotStart) {
			t.Errorf("%s: %v", link, err)
		}
		t.Log(err)
	}
}

func TestReadOnlyVolumeIsReadOnlyForAll(t *testing.T) {
	t.Parallel()
	for _, profile := range []launcher.Profile{launcher.Restricted, launcher.Baseline} {
		t.Run(string(profile), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, profile)
			c.Claim(t, c.Storage(t, 1), "shared")
			spec := c.Spec("writer")
			spec.Pod.Profile = profile
			spec.Pod.Volumes = []launcher.Volume{{Claim: "shared", SubPath: "team", Path: "/shared"}}
			harness.Put(t, harness.Launch(t, c.Launcher(), spec), "/shared/d/file", "original")
			spec.ID = "reader"
			spec.Pod.Volumes[0].ReadOnly = true
			s := harness.Launch(t, c.Launcher(), spec)
			checkReadOnly(t, s, "/shared")
			checkReadOnlyCalls(t, s, "/shared/d/file")
			if got := harness.Get(t, s, "/shared/d/file"); got != "original" {
				t.Errorf("it holds %q", got)
			}
		})
	}
}

func TestReadOnlyVolumeIsRefusedToCommandsAndSaidByInfo(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Claim(t, c.Storage(t, 1), "shared")
	s := harness.Launch(t, c.Launcher(), tenant(c, "reader", "a"))
	if _, _, status := harness.Run(t, s, "touch /skills/x", nil); status.Code == 0 {
		t.Error("a command wrote to a read-only volume")
	}
	info, err := s.Info(t.Context())
	if err != nil || !strings.Contains(fmt.Sprintf("%+v", info.Protected), "/skills") {
		t.Errorf("Info: %+v, %v", info.Protected, err)
	}
}

// keptSpec returns the Spec of a sandbox with its own claim.
func keptSpec(t *testing.T, c *launchertest.Cluster, id string) launcher.Spec {
	t.Helper()
	spec := c.Spec(id)
	spec.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, 1)}
	return spec
}

// wantKept checks that the workspace has the file that was kept.
func wantKept(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	if got := harness.Get(t, s, "file"); got != "kept" {
		t.Errorf("the workspace has %q", got)
	}
}

func TestPauseAndResumeKeepAGitTreeWithEdits(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "job")
	spec.Env = []string{"GREETING=hello"}
	s := harness.Launch(t, k, spec)
	if !s.Created {
		t.Error("the first launch did not create the sandbox")
	}
	script := `git init -q -b main . && git config user.name A && git config user.email a@example.com && mkdir -p src/deep &&
echo one > src/deep/file && chmod 640 src/deep/file && ln -s src/deep/file link && git add . && git commit -qm one &&
echo two >> src/deep/file && echo new > untracked && git stash -q -- src/deep/file && git stash apply -q`
	if _, errOut, status := harness.Run(t, s, script, nil); status.Code != 0 {
		t.Fatal(errOut)
	}
	state := `git status --porcelain; git diff; git log --format=%H%n%s; git fsck 2>&1; stat -c '%n %a %U %s' src/deep/file untracked; readlink link; echo $GREETING`
	before, _, _ := harness.Run(t, s, state, nil)
	s.Close()
	for range 2 {
		if err := k.Pause(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := k.List(t.Context()); err != nil || len(list) != 1 || list[0].State != launcher.Paused || list[0].Workdir != "/workspace" {
		t.Errorf("List: %+v, %v", list, err)
	}
	if d, err := k.Describe(t.Context(), "job"); err != nil || d.State != launcher.Paused || !errors.Is(d.AgentErr, launcher.ErrPaused) {
		t.Errorf("Describe: %+v, %v", d, err)
	}
	if _, err := k.Open(t.Context(), "job"); !errors.Is(err, launcher.ErrPaused) {
		t.Errorf("Open: %v", err)
	}
	s, err := k.Resume(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Created {
		t.Error("Resume says that it created the sandbox")
	}
	if after, errOut, _ := harness.Run(t, s, state, nil); after != before || !strings.Contains(after, "?? untracked") || !strings.Contains(after, "hello") {
		t.Errorf("after the pause it has\n%s%s, before it had\n%s", after, errOut, before)
	}
	if again, err := k.Resume(t.Context(), "job"); err != nil || again.PodName() != s.PodName() {
		t.Errorf("Resume of a running sandbox: %v", err)
	} else {
		again.Close()
	}
}

func TestLaunchTakesTheWorkspaceThatWasKept(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "job")
	spec.OnClose = launcher.CloseDelete
	s := harness.Launch(t, k, spec)
	harness.Put(t, s, "file", "kept")
	c.EndPod(t, s.PodName())
	harness.Await(t, "the pod's end", func() bool { return podOf(t, c, "job").Status.Phase == corev1.PodFailed })
	if _, err := k.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("Launch of an ended sandbox: %v", err)
	}
	spec.Take.OnStale = launcher.StaleRecreate
	again, err := k.Launch(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := harness.Get(t, again, "file"); got != "kept" || again.Created {
		t.Errorf("the workspace has %q; created: %t", got, again.Created)
	}
	// Close does not delete a sandbox that this launch did not create. Nor does it
	// if the pod that this launch created is gone.
	if err := errors.Join(again.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	resumed, err := k.Resume(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	wantKept(t, resumed)
	terminate(t, k, "job")
	if _, err := k.Resume(t.Context(), "job"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("Resume of a terminated sandbox: %v", err)
	}
	if claims := claimsIn(t, c); len(claims) > 0 {
		t.Errorf("claims are left: %v", claims)
	}
}

// Whichever comes first, a launch that succeeds returns a working sandbox, and its
// claim stays.
func TestLaunchBesideTerminateKeepsNoClaimThatEnds(t *testing.T) {
	t.Parallel()
	const requests = 5 // of Terminate; a launch begins at each of them
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprintf("paused %t", paused), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			spec := keptSpec(t, c, "job")
			spec.Pod.Workspace.StorageClass = c.Storage(t, 3*requests) // the volume of a deleted claim cannot be used again
			for n := range requests {
				harness.Put(t, harness.Launch(t, c.Launcher(), spec), "file", "of the launch before")
				if paused {
					if err := c.Launcher().Pause(t.Context(), "job"); err != nil {
						t.Fatal(err)
					}
				}
				launchDuringTerminate(t, c, spec, int64(n+1))
				harness.Put(t, harness.Launch(t, c.Launcher(), spec), "file", "new") // Terminate may have come last
				claim, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).Get(t.Context(), podOf(t, c, "job").Name, metav1.GetOptions{})
				if err != nil || claim.DeletionTimestamp != nil {
					t.Errorf("request %d: the claim of a running sandbox was deleted at %v: %v", n+1, claim.DeletionTimestamp, err)
				}
				terminate(t, c.Launcher(), "job")
			}
		})
	}
}

// launchDuringTerminate terminates a sandbox and launches it during Terminate's nth
// request. That request waits until the launch makes its first.
func launchDuringTerminate(t *testing.T, c *launchertest.Cluster, spec launcher.Spec, n int64) {
	t.Helper()
	reached, begun := make(chan struct{}), make(chan struct{})
	first, second := c.Launcher(), c.Launcher()
	before(first, nth(n), func() {
		close(reached)
		<-begun
	})
	before(second, nth(1), func() { close(begun) })
	terminated := make(chan error, 1)
	go func() { terminated <- first.Terminate(t.Context(), spec.ID) }()
	var early error
	select {
	case <-reached:
	case early = <-terminated: // Terminate makes fewer requests
		terminated <- nil
	}
	s, err := second.Launch(t.Context(), spec)
	if err := errors.Join(err, early, <-terminated); err != nil {
		t.Fatalf("request %d: %v", n, err)
	}
	s.Close()
}

// A launch that does not ask for the kept workspace must not get an empty one
// instead.
func TestLaunchWithoutTheKeptWorkspaceSaysThatItIsPaused(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	harness.Put(t, harness.Launch(t, k, keptSpec(t, c, "job")), "file", "kept")
	if err := k.Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Launch(t.Context(), c.Spec("job")); !errors.Is(err, launcher.ErrPaused) {
		t.Errorf("Launch: %v", err)
	}
	bad := keptSpec(t, c, "job")
	bad.Pod.Image = "podagent.test/none:dev"
	if _, err := k.Launch(t.Context(), bad); !errors.Is(err, launcher.ErrImage) {
		t.Errorf("Launch: %v", err)
	}
	s, err := k.Resume(t.Context(), "job") // with the last Spec that worked
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantKept(t, s)
}

// Another identity does not get the files by using the same id, and another
// connection type finds its listener.
func TestResumeByAnotherIdentityAndByAnotherWay(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := keptSpec(t, c, "job")
	harness.Put(t, harness.Launch(t, c.Launcher(), spec), "file", "kept")
	if err := c.Launcher().Pause(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	other := c.Launcher()
	other.Identity = &identity
	if _, err := other.Resume(t.Context(), "job"); !errors.Is(err, launcher.ErrOtherKey) {
		t.Errorf("Resume: %v", err)
	}
	if _, err := other.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrOtherKey) {
		t.Errorf("Launch: %v", err)
	}
	s, err := c.By(t, launcher.ByAddress).Launcher().Resume(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantKept(t, s)
}

func TestPauseRefusesASandboxWhoseFilesWouldBeLost(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	s := harness.Launch(t, k, c.Spec("job"))
	c.Storage(t, 0) // only for the permissions
	if err := k.Pause(t.Context(), "job"); !errors.Is(err, launcher.ErrNotKept) {
		t.Errorf("Pause: %v", err)
	}
	if err := s.Command(t.Context(), "true").Run(); err != nil {
		t.Errorf("after that: %v", err)
	}
	if err := k.Pause(t.Context(), "none"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("Pause of a missing sandbox: %v", err)
	}
}
