package agentsandbox

import (
	"errors"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// A sandbox that runs is opened by the key that replaces its own. A pod that the controller makes
// for it afterwards, from the template of before, is of no use.
func TestKeysAreReplaced(t *testing.T) {
	inEachMode(t, func(t *testing.T, _ *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		c.Storage(t, 0) // permission to look for claims
		file := filepath.Join(t.TempDir(), "identity.pem")
		orchestrator := func() *launcher.Kubernetes {
			k := c.Launcher()
			k.Identity, k.IdentityFile = nil, file
			return k
		}
		first := &agentsandbox.Launcher{Cluster: orchestrator()}
		if spec.Take.Pool != "" { // the pool of the mode accepts another identity
			text, err := first.Template(t.Context(), "ours", 1, c.Spec(""))
			if err != nil {
				t.Fatal(err)
			}
			apply(t, c, text)
			spec.Take.Pool = "ours"
		}
		spec.Env = []string{"GREETING=hello"}
		s := harness.Launch(t, first, spec)
		k := orchestrator()
		if _, err := k.RotateIdentity(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		retired, err := k.RetireIdentity(t.Context(), 1, true)
		if err != nil || retired.Sandboxes != 1 {
			t.Fatalf("%d sandboxes were told: %v", retired.Sandboxes, err)
		}
		second := &agentsandbox.Launcher{Cluster: orchestrator()}
		opened, err := second.Open(t.Context(), spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if out, _, _ := harness.Run(t, opened, "echo $GREETING", nil); out != "hello\n" {
			t.Errorf("the sandbox says %q", out)
		}
		opened.Close()
		if _, err := first.Open(t.Context(), spec.ID); err != nil { // it reads the identity again
			t.Error(err)
		}
		if err := c.API(t).CoreV1().Pods(c.Namespace).Delete(t.Context(), s.PodName(), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := fails(t, second, spec); !errors.Is(err, launcher.ErrOtherKey) {
			t.Errorf("a launch on another pod: %v", err)
		}
	})
}
