package launcher_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

func requesting(name corev1.ResourceName, amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(amount)}}
}

// verdicts returns what each check came to, by its name.
func verdicts(t *testing.T, findings []launcher.Finding) map[string]launcher.Verdict {
	t.Helper()
	out := map[string]launcher.Verdict{}
	for _, f := range findings {
		out[f.Name] = f.Verdict
		bad := f.Verdict == launcher.Failed || f.Verdict == launcher.Warned
		if bad != (f.Err != nil) || bad != (f.Advice != "") || !bad && f.Detail == "" {
			t.Errorf("%s: no error with an advice, or no detail: %+v", f.Name, f)
		}
	}
	return out
}

func podsLeft(t *testing.T, c *launchertest.Cluster) int {
	t.Helper()
	list, err := c.API(t).CoreV1().Pods(c.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func TestCheckOfTheCluster(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	findings := slices.Collect(c.Launcher().Check(t.Context(), c.Spec("")))
	for name, v := range verdicts(t, findings) {
		// The Role does not let it ask for the namespace or for CronJobs, and nothing keeps
		// pods from Secrets.
		unknown := slices.Contains([]string{"namespace", "way out of the sandbox", "pods with Secrets", "reaper"}, name)
		if want := map[bool]launcher.Verdict{true: launcher.NotChecked, false: launcher.Passed}[unknown]; v != want {
			t.Errorf("%s is %q, not %q", name, v, want)
		}
	}
	if n := len(findings); findings[n-1].Name != "pod is removed" || podsLeft(t, c) != 0 {
		t.Errorf("%d checks, and %d pods left", n, podsLeft(t, c))
	}
}

func TestCheckRemovesThePodHoweverItEnds(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	for f := range c.Launcher().Check(t.Context(), c.Spec("")) {
		if f.Name == "pod is admitted" {
			break
		}
	}
	if n := podsLeft(t, c); n != 0 {
		t.Errorf("%d pods are left when the caller stops", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := ""
	for f := range c.Launcher().Check(ctx, c.Spec("")) {
		if last = f.Name; last == "pod is admitted" {
			cancel()
		}
	}
	if n := podsLeft(t, c); n != 0 || last != "pod is admitted" {
		t.Errorf("%d pods are left when the context ends, and the last check was %q", n, last)
	}
}

func TestCheckOfWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	check := func(k *launcher.Kubernetes, change func(*launcher.Spec)) map[string]launcher.Verdict {
		spec := c.Spec("")
		change(&spec)
		return verdicts(t, slices.Collect(k.Check(t.Context(), spec)))
	}
	nothing := func(*launcher.Spec) {}
	away := c.Launcher()
	away.Config = rest.CopyConfig(c.Orchestrator)
	away.Config.Host = "https://127.0.0.1:1"
	anonymous := c.Launcher()
	anonymous.Config = rest.CopyConfig(c.Orchestrator)
	anonymous.Config.BearerToken = "not.a.token"
	nowhere := c.Launcher()
	nowhere.Config, nowhere.Namespace = c.Admin, "nowhere"
	cut := c.By(t, launcher.ByAddress).Launcher()
	cut.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrDeadlineExceeded }
	for _, tt := range []struct {
		name    string
		got     map[string]launcher.Verdict
		fails   string
		skipped string
	}{
		{"no API server", check(away, nothing), "API server", "permission on pods"},
		{"no credentials", check(anonymous, nothing), "API server", "pod is admitted"},
		{"no namespace", check(nowhere, nothing), "namespace", "pod is admitted"},
		{"no node", check(c.Launcher(), func(s *launcher.Spec) { s.Pod.Resources = requesting("cpu", "1000") }), "pod has a node", "container runs"},
		{"no way", check(cut, func(s *launcher.Spec) { s.Take.ReadyTimeout = 90 * time.Second }), "address to the agent", "command through the agent"},
		{"no such option", check(c.Launcher(), func(s *launcher.Spec) { s.Pod.Profile = "none" }), "pod is admitted", "pod is removed"},
	} {
		if tt.got[tt.fails] != launcher.Failed || tt.got[tt.skipped] != launcher.NotChecked {
			t.Errorf("%s: %v", tt.name, tt.got)
		}
	}
	if n := podsLeft(t, c); n != 0 {
		t.Errorf("%d pods are left", n)
	}
}

func TestCheckOfThisMachine(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation = isolation.Auto
	findings := slices.Collect(l.Check(t.Context(), launcher.Spec{}))
	for name, v := range verdicts(t, findings) {
		if v != launcher.Passed && !(name == "limits of the sandbox" && v == launcher.Warned) { // not every machine lets a control group be made
			t.Errorf("%s is %q", name, v)
		}
	}
	if list, err := l.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("%v is left: %v", list, err)
	}
	memory := *l
	memory.Ephemeral = 16 << 20
	if got := verdicts(t, slices.Collect(memory.Check(t.Context(), launcher.Spec{}))); got["checkpoints"] != launcher.NotChecked || got["removal"] != launcher.Passed {
		t.Errorf("with files in memory: %v", got)
	}
	broken := &launcher.Local{StateDir: filepath.Join(t.TempDir(), "state"), Agent: "/nowhere"}
	findings = slices.Collect(broken.Check(t.Context(), launcher.Spec{}))
	if got := verdicts(t, findings); got["sandbox"] != launcher.Failed || got["command"] != launcher.NotChecked {
		t.Errorf("without an agent: %v", got)
	}
	t.Setenv("PATH", t.TempDir())
	findings = slices.Collect(l.Check(t.Context(), launcher.Spec{}))
	if got := verdicts(t, findings); got["sandbox"] != launcher.Passed || got["command"] != launcher.Failed || got["removal"] != launcher.Passed {
		t.Errorf("without the command: %v", got)
	}
}
