package e2e

// The network of a pod whose commands leave by its agent, under the policy of deploy/.

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// applyEgress applies all policies of deploy/ that say what pods may connect to.
func applyEgress(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	for _, file := range []string{"networkpolicy.yaml", "networkpolicy-egress.yaml", "networkpolicy-no-egress.yaml"} {
		apply(t, c, file)
	}
}

// closed is a Spec of a sandbox whose network leads nowhere.
func closed(c *launchertest.Cluster, id string) launcher.Spec {
	spec := c.Spec(id)
	spec.Egress = wayout.Config{Mode: wayout.Mode(wayout.Network), Require: wayout.Network}
	return spec
}

// A sandbox that is there stays as it is, which is said, and is an error if that is less than required.
func TestPodThatLetsMoreOutIsNotTaken(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	l := c.Launcher()
	harness.Launch(t, l, c.Spec("a"))
	asked := c.Spec("a")
	asked.Egress.Mode = wayout.Auto
	s := harness.Launch(t, l, asked)
	if want := `egress is unset, not "auto"`; !slices.Equal(s.Drift, []string{want}) {
		t.Errorf("drift %q, want %q", s.Drift, want)
	}
	asked.Egress.Require = wayout.Network
	if _, err := l.Launch(t.Context(), asked); !errors.Is(err, launcher.ErrEgress) {
		t.Errorf("launching it: %v", err)
	}
	opened, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := opened.RequireEgress(t.Context(), wayout.Landlock); !errors.Is(err, launcher.ErrEgress) {
		t.Errorf("requiring it: %v", err)
	}
}

// A pod out of a pool is as closed as others, and so is one that is made again for its files.
func TestWarmAndResumedPodsAreClosed(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	applyEgress(t, c)
	egress := closed(c, "").Egress
	k, specOf := harness.KeptPoolOf(t, c, 1, 3, func(pods *launcher.Spec) { pods.Egress = egress })
	if s := harness.Launch(t, k, specOf("open")); s.Start.Warm || !strings.Contains(s.Start.Cold, "egress is") {
		t.Errorf("a sandbox without: %+v", s.Start)
	}
	spec := specOf("closed")
	spec.Egress = egress
	s := launchWarm(t, k, spec)
	if s.Egress.Level != wayout.Network {
		t.Errorf("out of the pool, it is %+v", s.Egress)
	}
	pause(t, k, s)
	resumed, err := k.Resume(t.Context(), "closed")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	if resumed.Egress.Level != wayout.Network {
		t.Errorf("resumed, it is %+v", resumed.Egress)
	}
}

func TestDoctorTriesWhetherThePolicyIsEnforced(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	verdict := func() (f launcher.Finding) {
		for f := range c.Launcher().Check(t.Context(), c.Spec("")) {
			if f.Name == "way out of the sandbox" {
				return f
			}
		}
		return f
	}
	if f := verdict(); f.Verdict != launcher.NotChecked || !strings.Contains(f.Detail, "deploy/networkpolicy-egress.yaml") {
		t.Errorf("without a policy: %+v", f)
	}
	applyEgress(t, c)
	harness.Await(t, "the verdict of a policy that is enforced", func() bool { return verdict().Verdict == launcher.Passed })
}
