package bench

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/podagent/podagent/internal/recipetest"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// deniedTime is when a program that asks for a host that no rule allows must have ended, in
// milliseconds.
const deniedTime = 1000

// BenchmarkEgressDenied measures programs in a pod that ask for a host that no rule allows, until they
// have ended with the reason.
func BenchmarkEgressDenied(b *testing.B) {
	c := launchertest.NewCluster(b, launcher.Restricted)
	spec := c.Spec("")
	spec.Pod.Image = launchertest.ProgramsImage
	s := launchLeaver(b, c.By(b, launcher.ByPortForward).Launcher(), spec, wayout.Mode(wayout.Landlock))
	far, err := egress.Serve(context.Background(), s.Client, egress.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { far.Close() })
	env := recipetest.Install(b, s.Client, s.Workdir)
	for _, r := range recipetest.InPods() {
		compare(b, "calls", r.Program+" in a pod, until it ends since its host is denied", 10, side{name: "podagent", do: func() error {
			out, err := recipetest.Run(b.Context(), s.Client, r.Script, recipetest.Evil, 443, env...)
			if err == nil || !strings.Contains(out, r.Denied) {
				return fmt.Errorf("it ended with %v:\n%s", err, out)
			}
			return nil
		}}).limit("limit", deniedTime)
	}
}
