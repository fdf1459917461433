package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The tests of this file are about how much a workspace may hold, and the claim of
// one that is kept.

func TestClaimOfAnotherSizeIsDrift(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	k, spec := c.Launcher(), keptSpec(t, c, "job")
	start := func(spec launcher.Spec, want int) {
		t.Helper()
		s := launch(t, k, spec)
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
	larger.Pod.OnDrift = launcher.DriftError
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
	larger.Pod.OnDrift = launcher.DriftSay
	start(larger, 1)
	start(larger, 1) // the pod that there is was made so, and has that claim
	larger.Pod.OnDrift = launcher.DriftError
	if _, err := k.Launch(t.Context(), larger); !errors.Is(err, launcher.ErrDrift) {
		t.Errorf("Launch of what runs: %v", err)
	}
}

func TestPodWhoseWorkspaceHoldsTooMuchIsEvicted(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec, k := c.Spec("job"), c.Launcher()
	spec.Pod.Workspace.Size = resource.MustParse("16Mi")
	s := launch(t, k, spec)
	run(t, s, "head -c 64M /dev/zero > big", nil)
	var err error
	await(t, "the end of the pod", func() bool {
		_, err = s.Stat(t.Context(), "big")
		return err != nil
	})
	if !errors.Is(err, launcher.ErrStale) || !strings.Contains(err.Error(), "Evicted") {
		t.Errorf("a call: %v", err)
	}
	if _, err := k.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrStale) || !strings.Contains(err.Error(), "Evicted") {
		t.Errorf("a launch: %v", err)
	}
	spec.Pod.OnStale = launcher.StaleRecreate
	put(t, launch(t, k, spec), "file", "x")
}

func TestWorkspaceHasItsSize(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("job")
	spec.Pod.Workspace.Size = resource.MustParse("1Gi")
	s := launch(t, c.Launcher(), spec)
	put(t, s, "file", "x")
	for _, v := range podOf(t, c, "job").Spec.Volumes {
		if v.Name == "workspace" && v.EmptyDir.SizeLimit.Cmp(spec.Pod.Workspace.Size) == 0 {
			return
		}
	}
	t.Error("the volume at the workdir has no limit")
}

func TestClaimWithoutPermissionIsForbidden(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("job")
	spec.Pod.Workspace.Keep = true
	if _, err := c.Launcher().Launch(t.Context(), spec); !errors.Is(err, launcher.ErrForbidden) || apierrors.IsNotFound(err) {
		t.Errorf("Launch: %v", err)
	}
}
