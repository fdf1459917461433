package e2e

// The tests of this file are about workdirs that belong to the sandbox's user, and about claims of both
// kinds.

import (
	"errors"
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// ownersWork is what only the owner of a directory can do, as tar, cp and git do it in the workdir.
const ownersWork = `set -e
mkdir -p tree && echo x >tree/f && chmod 750 tree
tar -C tree -cf /tmp/a.tar . && tar -xf /tmp/a.tar
cp -a tree/. .
chmod 700 . && touch -d 2001-02-03 .
env -u GIT_CONFIG_COUNT git init -q . && env -u GIT_CONFIG_COUNT git status >/dev/null
stat -c '%u %a' .`

// wantOwned expects that the workdir is the sandbox user's own, and has nothing beside the names.
func wantOwned(t *testing.T, s *launcher.Sandbox, names ...string) {
	t.Helper()
	if got := harness.Names(t, s, "."); !slices.Equal(got, names) {
		t.Errorf("the workdir has %q, want %q", got, names)
	}
	if out, stderr, status := harness.Run(t, s, ownersWork, nil); !status.Success() || out != "1000 2700\n" {
		t.Errorf("%v: %q %s", status, out, stderr)
	}
	harness.Run(t, s, "rm -rf tree f .git", nil)
}

// wantRoots expects that the workdir belongs to root.
func wantRoots(t *testing.T, s *launcher.Sandbox, names ...string) {
	t.Helper()
	if got := harness.Names(t, s, "."); !slices.Equal(got, names) {
		t.Errorf("the workdir has %q, want %q", got, names)
	}
	if out, _, status := harness.Run(t, s, "stat -c %u . && chmod 700 .", nil); status.Success() || out != "0\n" {
		t.Errorf("the workdir is of user %s: %v", out, status)
	}
}

func TestOwnedWorkspaceIsTheSandboxUsers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*launcher.Pod){
		"plain":    func(*launcher.Pod) {},
		"filled":   func(p *launcher.Pod) { p.ReadOnly = []launcher.ReadOnlyDir{{Path: "/skills", From: "/etc/skel"}} },
		"hardened": func(p *launcher.Pod) { p.ReadOnlyRoot = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			spec := c.Spec("a")
			change(&spec.Pod)
			spec.Pod.Workspace.Owned = true
			k := c.Launcher()
			s := harness.Launch(t, k, spec)
			wantOwned(t, s)
			if d, err := k.Describe(t.Context(), "a"); err != nil || d.Bounds["own-workspace"] != "yes" {
				t.Errorf("it is described as %v: %v", d.Bounds, err)
			}
		})
	}
}

// What installs podagent makes the workdir, too.
func TestOwnedWorkspaceInAnImageWithoutPodagent(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := injected(c, "podagent.test/busybox:dev")
	spec.Pod.Workspace.Owned = true
	s := harness.Launch(t, c.Launcher(), spec)
	if out, stderr, status := harness.Run(t, s, "chmod 700 . && stat -c %u .", nil); !status.Success() || out != "1000\n" {
		t.Errorf("%v: %q %s", status, out, stderr)
	}
	if n := len(podOf(t, c, "a").Spec.InitContainers); n != 1 {
		t.Errorf("the pod has %d init containers", n)
	}
}

// A claim of an older version has the files in its root, and one of a launch that did not ask for more has them in a
// directory that is root's.
func TestFilesThatAreRootsAreFoundByLaunchesThatWantTheirOwn(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), keptSpec(t, c, "a")
	s := harness.Launch(t, k, spec)
	harness.Put(t, s, "file", "kept")
	pause(t, k, s)
	testFilesThatAreRoots(t, k, spec, "the claim's files are in a directory that is not the sandbox's")
	spec.Pod.Workspace.Owned = false
	s = asOfBefore(t, c, k, spec)
	harness.Put(t, s, "file", "kept")
	pause(t, k, s)
	testFilesThatAreRoots(t, k, spec, "the claim's files are in the root of its volume, which is not the sandbox's")
	terminate(t, k, "a")
}

// testFilesThatAreRoots expects that drift of a sandbox that is paused, and leaves it so.
func testFilesThatAreRoots(t *testing.T, k *launcher.Kubernetes, spec launcher.Spec, drift string) {
	t.Helper()
	spec.Pod.Workspace.Owned, spec.Take.OnDrift = true, launcher.DriftError
	if _, err := k.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrDrift) {
		t.Errorf("a launch that minds drift: %v", err)
	}
	spec.Take.OnDrift = launcher.DriftSay
	var s *launcher.Sandbox
	for range 2 { // it makes the pod, and adopts it
		s = harness.Launch(t, k, spec)
		if !slices.Equal(s.Drift, []string{drift}) {
			t.Errorf("drift: %q", s.Drift)
		}
		wantRoots(t, s, "file")
		wantKept(t, s)
	}
	pause(t, k, s)
	s, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantRoots(t, s, "file")
	wantKept(t, s)
	pause(t, k, s)
}

func TestFilesOfAnOwnedWorkspaceAreFoundAgain(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), keptSpec(t, c, "a")
	spec.Pod.Workspace.Owned = true
	s := harness.Launch(t, k, spec)
	wantOwned(t, s)
	harness.Put(t, s, "file", "kept")
	pause(t, k, s)
	s, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantOwned(t, s, "file")
	for _, owned := range []bool{true, false} {
		pause(t, k, s)
		spec.Pod.Workspace.Owned = owned
		s = harness.Launch(t, k, spec)
		if len(s.Drift) > 0 {
			t.Errorf("drift: %q", s.Drift)
		}
		wantOwned(t, s, "file")
		wantKept(t, s)
	}
	terminate(t, k, "a")
}

// In a pool an owned workspace costs nobody time: neither a launch nor a resumption has an init container
// to wait for unless it asks for it.
func TestPodsOfAPoolWithOwnedWorkspacesAreForAll(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 3, func(pods *launcher.Spec) { pods.Pod.Workspace.Owned = true })
	s := launchWarm(t, k, specOf("a"))
	wantOwned(t, s)
	harness.Put(t, s, "file", "kept")
	pause(t, k, s)
	s, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantOwned(t, s, "file")
	wantKept(t, s)
	if made := podOf(t, c, "a").Spec.InitContainers; len(made) > 0 {
		t.Errorf("the pod of a resumption waits for %v", made[0].Command)
	}
	pause(t, k, s)
	terminate(t, k, "a")
	harness.AwaitPool(t, c, 1)
	spec := specOf("b")
	spec.Pod.Workspace.Owned = true
	wantOwned(t, launchWarm(t, k, spec))
	terminate(t, k, "b")
}
