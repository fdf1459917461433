package disrupt

import (
	"errors"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// A kubelet that starts again mounts the claim of a pod only if the pod controls it, and the
// volume of a running pod may go otherwise.
func TestWarmSandboxKeepsItsFilesAcrossARestartOfTheKubelet(t *testing.T) {
	c := launchertest.DisruptedCluster(t, launcher.Restricted)
	k, specOf := harness.KeptPoolOf(t, c, 1, 2)
	s := harness.Launch(t, k, specOf("a"))
	if !s.Start.Warm {
		t.Fatalf("it starts as %+v", s.Start)
	}
	harness.Put(t, s, "file", "kept")
	before, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	boot := before.BootID
	process := s.Command(t.Context(), "sh", "-c", "sleep 3600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	c.Restart(t, "kubelet")
	if harness.BootOf(t, s) != boot || harness.Get(t, s, "file") != "kept" {
		t.Error("the agent was started again, or the file has changed")
	}
	harness.Put(t, s, "later", "x")
	processes, err := s.Processes(t.Context())
	if err != nil || len(processes) != 1 {
		t.Errorf("processes %v: %v", processes, err)
	}
	c.KillAgent(t, before.PodUID)
	harness.Await(t, "the next agent", func() bool {
		info, err := s.Info(t.Context())
		return err == nil && info.BootID != boot
	})
	if got := harness.Get(t, s, "file") + harness.Get(t, s, "later"); got != "keptx" {
		t.Errorf("after a restart of the container the files have %q", got)
	}
	if err := errors.Join(s.Close(), k.Pause(t.Context(), "a")); err != nil {
		t.Fatal(err)
	}
	resumed, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	if got := harness.Get(t, resumed, "file") + harness.Get(t, resumed, "later"); got != "keptx" {
		t.Errorf("the next pod has the files with %q", got)
	}
}
