//go:build linux

package launcher_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// overEachWay runs a test that harms its agents over each way to them, in parallel.
func overEachWay(t *testing.T, test func(t *testing.T, c *launchertest.Cluster)) {
	t.Parallel()
	for _, way := range launcher.Connections() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			test(t, launchertest.OwnCluster(t, launcher.Restricted).By(t, way))
		})
	}
}

// sleeper starts a command that does not end by itself.
func sleeper(t *testing.T, s *launcher.Sandbox) *podapi.Cmd {
	t.Helper()
	cmd := s.Command(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestProcessOfAContainerThatWasKilledIsLostForTheClustersReason(t *testing.T) {
	overEachWay(t, testKilledContainer)
}

func testKilledContainer(t *testing.T, c *launchertest.Cluster) {
	s := launchFor(t, c.Launcher(), c.Spec("a"))
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t, s)
	c.KillAgent(t, info.PodUID)
	err = cmd.Wait()
	pod, ok := errors.AsType[*launcher.PodError](err)
	if !errors.Is(err, podapi.ErrAgentLost) || !errors.Is(err, launcher.ErrContainerEnded) || !ok || !strings.Contains(pod.Message, "signal 9") {
		t.Errorf("Wait: %v", err)
	}
	t.Log(err)
	if err := s.Command(t.Context(), "true").Run(); err != nil {
		t.Errorf("the next command: %v", err)
	}
}

func TestProcessOfAPodThatIsDeletedUnderItIsLost(t *testing.T) {
	overEachWay(t, testDeletedPod)
}

func testDeletedPod(t *testing.T, c *launchertest.Cluster) {
	s := launchFor(t, c.Launcher(), c.Spec("a"))
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t, s)
	c.FreezeAgent(t, info.PodUID) // so that it cannot say how its processes ended
	err = c.API(t).CoreV1().Pods(c.Namespace).Delete(t.Context(), s.PodName(), metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.KillAgent(t, info.PodUID)
	err = cmd.Wait()
	if !errors.Is(err, podapi.ErrAgentLost) || !errors.Is(err, launcher.ErrGone) {
		t.Errorf("Wait: %v", err)
	}
	t.Log(err)
}

func TestProcessOfAPodThatIsTerminatedEndsByItsSignalOrIsLost(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	s := launchFor(t, c.Launcher(), c.Spec("a"))
	cmd := sleeper(t, s)
	if err := c.Launcher().Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	exit, ended := errors.AsType[*podapi.ExitError](err)
	switch {
	case ended && exit.Signal == 15:
	case errors.Is(err, podapi.ErrAgentLost) && errors.Is(err, launcher.ErrGone):
	default:
		t.Errorf("Wait: %v", err)
	}
	t.Log(err)
}

func TestProcessOfAPodThatIsEvictedIsLostForTheClustersReason(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Workspace.Size = resource.MustParse("16Mi")
	s := launchFor(t, c.Launcher(), spec)
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := s.Shell(t.Context(), "until grep -q '^State:.T' /proc/1/status; do sleep 0.1; done; head -c 64M /dev/zero > big; sleep 600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.FreezeAgent(t, info.PodUID) // so that it does not say how its processes ended
	err = cmd.Wait()
	pod, ok := errors.AsType[*launcher.PodError](err)
	if !errors.Is(err, podapi.ErrAgentLost) || !errors.Is(err, launcher.ErrStale) || !ok || pod.Reason != "Evicted" {
		t.Errorf("Wait: %v", err)
	}
	t.Log(err)
}

// Where the guard does not act in time, the kernel may kill the agent.
func TestProcessOfAnAgentThatIsOutOfMemoryIsLostForTheClustersReason(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	s := launchFor(t, c.Launcher(), spec)
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Each has less than the agent, and all together more than there is.
	cmd := s.Command(t.Context(), "perl", "-e", `
		sub score { open(my $file, "<", "/proc/1/oom_score_adj") or die $!; <$file> }
		select(undef, undef, undef, 0.1) until score() == 1000; # doomed
		for (1..100) { if (!fork) { my $x = "x" x (4 << 20); sleep 600 } } sleep 600`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.DoomAgent(t, info.PodUID)
	err = cmd.Wait()
	t.Log(err)
	pod, ok := errors.AsType[*launcher.PodError](err)
	if !errors.Is(err, podapi.ErrAgentLost) || !errors.Is(err, launcher.ErrContainerEnded) || !ok || pod.Reason != "OOMKilled" {
		t.Errorf("Wait: %v", err)
	}
	if err := s.Command(t.Context(), "true").Run(); err != nil {
		t.Errorf("the next command: %v", err)
	}
}
