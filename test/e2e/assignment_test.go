package e2e

// What a sandbox out of a pool got outlives the agent that it was given to.

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// Code in the sandbox can end the container. Nobody is connected meanwhile, and the next caller
// sets nothing.
func TestWhatAWarmSandboxGotOutlivesItsContainer(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	spec := harness.Pooled(c, "a")
	spec.Env, spec.Protected = []string{"GREETING=hi $HOME"}, []string{"go.mod"}
	spec.Pod.Lifetime, spec.Pod.IdleTimeout = time.Hour, 30*time.Minute
	s := launchWarm(t, k, spec)
	uid := podUID(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	restarted(t, c, uid, "a")
	s, err := k.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantConfigured(t, s)
}

// restarted kills the agent of a sandbox that nobody calls, and waits until its container runs
// again.
func restarted(t *testing.T, c *launchertest.Cluster, uid, id string) {
	t.Helper()
	before := podOf(t, c, id).Status.ContainerStatuses[0].RestartCount
	c.KillAgent(t, uid)
	harness.Await(t, "the next start of the container", func() bool {
		status := podOf(t, c, id).Status.ContainerStatuses[0]
		return status.RestartCount > before && status.State.Running != nil
	})
}

// An assignment without its signature is none: the agent serves nobody until an orchestrator
// gives it the right one.
func TestSpoiltAssignmentIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	k := harness.PoolOf(t, c, 1)
	spec := harness.Pooled(c, "a")
	spec.Protected = []string{"go.mod"}
	s := launchWarm(t, k, spec)
	uid, good := podUID(t, s), podOf(t, c, "a").Annotations[podmeta.AnnotationAssignment]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	harness.AwaitPool(t, c, 1) // by then the node has mostly done what the taking asked of it
	for name, spoilt := range map[string]string{"gone": "", "cut": good[:len(good)-3]} {
		annotate(t, c, podOf(t, c, "a").Name, podmeta.AnnotationAssignment, spoilt)
		// A node that is busy with the pod starts it again as it was before.
		harness.Await(t, "a start with an assignment that is "+name, func() bool {
			restarted(t, c, uid, "a")
			s, err := k.Open(t.Context(), "a")
			if err == nil {
				_, err = s.ReadFile(t.Context(), "x")
				s.Close()
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, podapi.ErrUnassigned) && !errors.Is(err, syscall.EINVAL) {
				t.Fatal(err)
			}
			return !errors.Is(err, fs.ErrNotExist)
		})
	}
	annotate(t, c, podOf(t, c, "a").Name, podmeta.AnnotationAssignment, good)
	s, err := k.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.WriteFile(t.Context(), "go.mod", nil, 0o600); !errors.Is(err, fsops.ErrProtected) {
		t.Errorf("writing a protected path: %v", err)
	}
}
