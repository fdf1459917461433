package e2e

// What bounds a sandbox, seen from inside and by describe and doctor.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestReadOnlyRootLeavesRoomToWork(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Baseline)
	for _, profile := range []launcher.Profile{launcher.Restricted, launcher.Baseline} {
		spec := c.Spec(string(profile))
		spec.Pod.Profile, spec.Pod.ReadOnlyRoot = profile, true
		spec.Pod.ReadOnly = []launcher.ReadOnlyDir{{Path: "/rules", From: "/etc/skel"}}
		s := harness.Launch(t, c.Launcher(), spec)
		const script = `for f in /tmp/x ~/x x /usr/x /etc/x /var/x /rules/x; do (: >$f) 2>/dev/null && echo $f; done`
		if out, errOut, _ := harness.Run(t, s, script, nil); out != "/tmp/x\n/home/agent/x\nx\n" {
			t.Errorf("%s: one can write %q, %s", profile, out, errOut)
		}
		harness.Put(t, s, "file", "x")
		if out, errOut, _ := harness.Run(t, s, "git init -q a && cd a && echo x >f && git add f && git -c user.name=a -c user.email=a@b commit -qm m && git log --format=%s", nil); out != "m\n" {
			t.Errorf("%s: git says %q, %s", profile, out, errOut)
		}
	}
}

func TestBaselineSendsNoRawPackets(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Baseline)
	spec := c.Spec("a")
	spec.Pod.Profile = launcher.Baseline
	const capNetRaw = 13
	out, _, _ := harness.Run(t, harness.Launch(t, c.Launcher(), spec), "grep CapBnd /proc/self/status | cut -f2", nil)
	mask, err := strconv.ParseUint(strings.TrimSpace(out), 16, 64)
	if err != nil || mask == 0 || mask&(1<<capNetRaw) != 0 {
		t.Errorf("the capabilities are %#x, %v", mask, err)
	}
}

func TestDescribeSaysWhatBoundsASandbox(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Baseline)
	bounds := func(id string, change func(*launcher.Pod)) map[string]string {
		spec := c.Spec(id)
		change(&spec.Pod)
		harness.Launch(t, c.Launcher(), spec)
		d, err := c.Launcher().Describe(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return d.Bounds
	}
	want := map[string]string{
		"cpu": "4", "memory": "4Gi", "ephemeral-storage": "20Gi", "workspace": "10Gi", "processes": "unknown",
		"capabilities": "none", "seccomp": "the runtime's default", "apparmor": "unknown", "user-namespace": "none", "read-only-root": "no", "own-workspace": "no",
	}
	if diff := cmp.Diff(want, bounds("plain", func(*launcher.Pod) {})); diff != "" {
		t.Errorf("by default (-want +got):\n%s", diff)
	}
	want["cpu"], want["memory"], want["ephemeral-storage"], want["workspace"] = "none", "1Gi", "none", "none"
	want["capabilities"], want["read-only-root"] = "the runtime's default -NET_RAW", "yes"
	if diff := cmp.Diff(want, bounds("loose", func(p *launcher.Pod) {
		p.Profile, p.ReadOnlyRoot, p.Workspace.Size = launcher.Baseline, true, resource.MustParse("-1")
		p.Resources.Limits = corev1.ResourceList{"cpu": {}, "memory": resource.MustParse("1Gi")}
	})); diff != "" {
		t.Errorf("with other bounds (-want +got):\n%s", diff)
	}
}

// A cluster without user namespaces or AppArmor refuses a sandbox that requires them, and
// one that prefers them runs.
func TestProtectionThatTheClusterLacksIsRefusedIfRequired(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	preferring := c.Spec("preferring")
	preferring.Pod.UserNamespace = launcher.Prefer
	out, _, _ := harness.Run(t, harness.Launch(t, c.Launcher(), preferring), "cat /proc/self/uid_map", nil)
	if fields := strings.Fields(out); len(fields) != 3 {
		t.Fatalf("the users are %q", out)
	}
	for id, lacks := range map[string]struct {
		change func(*launcher.Pod)
		says   string
	}{
		"users":    {func(p *launcher.Pod) { p.UserNamespace = launcher.Require }, "user namespace"},
		"apparmor": {func(p *launcher.Pod) { p.RequireAppArmor = true }, "AppArmor"},
	} {
		spec := c.Spec(id)
		lacks.change(&spec.Pod)
		s, err := launchOrHear(t, c, spec, lacks.says)
		if err == nil {
			d, err := c.Launcher().Describe(t.Context(), s.ID)
			s.Close()
			if err != nil || id == "apparmor" && d.Bounds["apparmor"] != "the runtime's default" || id == "users" && d.Bounds["user-namespace"] == "none" {
				t.Errorf("%s: it runs with %v, %v", id, d.Bounds, err)
			}
			continue
		}
		if !errors.As(err, new(*launcher.PodError)) || !strings.Contains(err.Error(), lacks.says) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// launchOrHear launches a sandbox, until it runs or the error says why it cannot: the kubelet tries again and again. On
// a busy machine it may come to that only after the first launches gave up.
func launchOrHear(t *testing.T, c *launchertest.Cluster, spec launcher.Spec, why string) (s *launcher.Sandbox, err error) {
	t.Helper()
	id := spec.ID
	for spec.Take.ReadyTimeout = 5 * time.Second; spec.Take.ReadyTimeout < harness.Hung; spec.Take.ReadyTimeout *= 2 {
		spec.ID = fmt.Sprintf("%s-%.0f", id, spec.Take.ReadyTimeout.Seconds())
		if s, err = c.Launcher().Launch(t.Context(), spec); err == nil || strings.Contains(err.Error(), why) {
			break
		}
	}
	return s, err
}

func TestDoctorSaysWhatKeepsAHostilePodOut(t *testing.T) {
	t.Parallel()
	verdicts := func(c *launchertest.Cluster, secret string) map[string]launcher.Finding {
		k := &launcher.Kubernetes{Config: c.Admin, Namespace: c.Namespace, IdentitySecret: secret}
		found := map[string]launcher.Finding{}
		for f := range k.Check(t.Context(), c.Spec("")) {
			found[f.Name] = f
		}
		return found
	}
	const files, secrets, reaper = "pods with the node's files", "pods with Secrets", "reaper"
	open := unlabelled(t)
	for name, f := range verdicts(open, "key") {
		if warn := name == files || name == secrets; warn != (f.Verdict == launcher.Warned) {
			t.Errorf("without a policy, %s is %q: %s%v", name, f.Verdict, f.Detail, f.Err)
		}
	}
	applyPolicy(t, open, "[]")
	if err := open.Apply(t.Context(), "../../deploy/reaper.yaml"); err != nil {
		t.Fatal(err)
	}
	got := verdicts(open, "key")
	if f := got[secrets]; f.Verdict != launcher.Warned {
		t.Errorf("with the policy, and the identity here, %+v", f)
	}
	if f := verdicts(open, "")[secrets]; f.Verdict != launcher.Passed || !strings.Contains(f.Detail, "Secrets are refused here") {
		t.Errorf("with the policy, %+v", f)
	}
	if f := got[files]; f.Verdict != launcher.Passed {
		t.Errorf("with the policy, %+v", f)
	}
	labelled := launchertest.NewCluster(t, launcher.Restricted)
	got = verdicts(labelled, "")
	if f := got[files]; f.Verdict != launcher.Passed || !strings.Contains(f.Detail, "PodSecurity") {
		t.Errorf("with a Pod Security Standard, %+v", f)
	}
	if f := got[reaper]; f.Verdict != launcher.NotChecked {
		t.Errorf("without a reaper of this namespace, %+v", f)
	}
}
