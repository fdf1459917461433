package e2e

// The network of a pod whose commands leave by its agent, under the policy of deploy/.

import (
	"errors"
	"net/http"
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

// The agent is reached all the same, by each connection and both ways through it.
func TestPodWhoseNetworkLeadsNowhereServes(t *testing.T) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		applyEgress(t, c)
		spec := closed(c, "closed")
		spec.Pod.Main = []string{"sh", "-c", "echo ran > main; exec sleep infinity"}
		s := harness.Launch(t, c.Launcher(), spec)
		harness.Await(t, "the command beside the agent", func() bool {
			data, err := s.ReadFile(t.Context(), "main")
			return err == nil && string(data) == "ran\n"
		})
		client := browser(t, s, harness.StartServer(t, s)["http"])
		answer, err := client.Get("http://sandbox/")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("a server in it: %v, %v", answer, err)
		}
		d, err := c.Launcher().Describe(t.Context(), "closed")
		if err != nil || d.Agent == nil || d.Agent.Egress.Level != wayout.Network || d.Agent.Egress.Port == 0 {
			t.Errorf("it is described as %+v, %v", d.Agent, err)
		}
	})
}

// Without the policy nothing is made, and no command has run.
func TestPodThatLetsCommandsOutIsNotMade(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := closed(c, "closed")
	_, err := c.Launcher().Launch(t.Context(), spec)
	if e, ok := errors.AsType[*launcher.PodError](err); !ok || !errors.Is(e.Class, launcher.ErrEgress) || !strings.Contains(err.Error(), "the network leads out of the sandbox: ") {
		t.Errorf("launching it: %v", err)
	}
	if n := harness.SandboxPods(t, c, "closed"); n != 0 {
		t.Errorf("%d pods are left", n)
	}
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
