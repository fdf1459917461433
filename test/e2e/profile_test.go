package e2e

// The permissions of a pod.

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestPodIsSecureByDefault(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted) // the cluster enforces it
	s := harness.Launch(t, c.Launcher(), c.Spec("a"))
	script := `id -u; ls /var/run/secrets/kubernetes.io 2>&1; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; touch ~/x && echo home; touch /usr/x 2>&1`
	out, _, _ := harness.Run(t, s, script, nil)
	want := []string{
		"1000", "ls: cannot access '/var/run/secrets/kubernetes.io': No such file or directory",
		"CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "home", "touch: cannot touch '/usr/x': Permission denied",
	}
	if got := strings.Split(strings.TrimSpace(out), "\n"); !cmp.Equal(got, want) {
		t.Errorf("inside: %s", cmp.Diff(want, got))
	}
}

func TestBaselineIsRoot(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Baseline)
	spec := c.Spec("a")
	spec.Pod.Profile = launcher.Baseline
	s := harness.Launch(t, c.Launcher(), spec)
	// As apt does: root's files, and files of another user.
	if out, errOut, _ := harness.Run(t, s, "id -u; touch /usr/x && chown daemon /usr/x && dpkg --configure -a && echo done", nil); out != "0\ndone\n" {
		t.Errorf("inside: %q, %q", out, errOut)
	}
	// Root gains nothing either, and whoever asks is told.
	if out, _, _ := harness.Run(t, s, "grep ^NoNewPrivs: /proc/self/status", nil); out != "NoNewPrivs:\t1\n" {
		t.Errorf("inside: %q", out)
	}
	script := "install -m 4755 /usr/bin/id /usr/bin/rootsid && setpriv --reuid 1 --clear-groups rootsid -u"
	if out, errOut, _ := harness.Run(t, s, script, nil); out != "1\n" {
		t.Errorf("a set-user-ID program says %q, %q", out, errOut)
	}
	d, err := c.Launcher().Describe(t.Context(), "a")
	if err != nil || d.Agent == nil {
		t.Fatalf("describing it: %v, %v", err, d.AgentErr)
	}
	for _, part := range []string{"no-new-privileges", "syscall-filter"} {
		if !slices.Contains(d.Agent.Confinement, part) {
			t.Errorf("it is confined by %q, without %s", d.Agent.Confinement, part)
		}
	}
}

// An image that was not made for any profile, on another base and with another
// user.
func TestCustomImageWorks(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Image = "podagent.test/embedded:dev"
	s := harness.Launch(t, c.Launcher(), spec)
	harness.Put(t, s, "file", "x")
	if out, _, _ := harness.Run(t, s, "cat file; id -u", nil); out != "x1000\n" {
		t.Errorf("inside: %q", out)
	}
}

// A sandbox that confines its commands by less than is required is not given out, and stays
// as it is.
func TestSandboxThatConfinesCommandsByLessIsNotTaken(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Confine = "off"
	boot := harness.BootOf(t, harness.Launch(t, c.Launcher(), spec))
	for _, level := range []string{"filter", "domain"} {
		spec.Pod.Confine = level
		if _, err := c.Launcher().Launch(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "not confined by no-new-privileges") {
			t.Errorf("%s: %v", level, err)
		}
	}
	spec.Pod.Confine = "off"
	if now := harness.BootOf(t, harness.Launch(t, c.Launcher(), spec)); now != boot {
		t.Error("the sandbox is another one")
	}
}
