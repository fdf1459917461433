package launcher_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The Role lets nobody read StorageClasses: the checks find out by a claim that is
// not made. The cluster of "make cluster" has no default class.
func TestChecksFindOutWhetherAKeptWorkspaceHasAStorageClass(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	class := c.Storage(t, 1) // of another cluster that has a default this is empty
	without := map[bool]launcher.Verdict{true: launcher.Passed, false: launcher.Failed}[class == ""]
	for _, tt := range []struct {
		name   string
		config *rest.Config
		class  string
		want   launcher.Verdict
	}{
		{"the default", c.Orchestrator, "", without},
		{"a named one", c.Admin, class, launcher.Passed},
		{"a named one that nobody may look for", c.Orchestrator, "fast", launcher.NotChecked},
		{"one that is not there", c.Admin, "none", launcher.Failed},
	} {
		k, spec := c.Launcher(), c.Spec("a")
		k.Config, spec.Pod.Workspace = tt.config, launcher.Workspace{Keep: true, StorageClass: tt.class}
		found := slices.Collect(k.Preflight(t.Context(), spec))
		if got := verdicts(t, found)["storage class"]; got != tt.want {
			t.Errorf("%s is %q, not %q", tt.name, got, tt.want)
		}
	}
	list, err := c.API(t).CoreV1().PersistentVolumeClaims(c.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d claims are there, %v", len(list.Items), err)
	}
	if class == "" {
		return
	}
	kept := c.Spec("")
	kept.Pod.Workspace.Keep = true
	findings := slices.Collect(c.Launcher().Check(t.Context(), kept))
	if got := verdicts(t, findings); got["storage class"] != launcher.Failed || got["pod is admitted"] != launcher.NotChecked {
		t.Errorf("doctor: %v", got)
	}
	for _, f := range findings {
		if f.Name == "storage class" && (!errors.Is(f.Err, launcher.ErrNoStorageClass) || !strings.Contains(f.Advice, "--storage-class")) {
			t.Errorf("doctor says %v: %s", f.Err, f.Advice)
		}
	}
}
