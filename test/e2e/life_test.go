package e2e

// Sandboxes that end themselves.

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// hasEnded reports whether the sandbox's pod has ended with exit code 0.
func hasEnded(t *testing.T, c *launchertest.Cluster, id string) bool {
	t.Helper()
	phase := podOf(t, c, id).Status.Phase
	if phase == corev1.PodFailed {
		t.Fatalf("the pod of %s has failed", id)
	}
	return phase == corev1.PodSucceeded
}

func TestIdleSandboxEndsItself(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("idle")
	spec.Pod.IdleTimeout = 30 * time.Second
	called := time.Now() // or later
	s := harness.Launch(t, k, spec)
	busy := spec
	busy.ID = "busy"
	left := leaveRunning(t, harness.Launch(t, k, busy))
	wasLeft := time.Now()
	harness.Await(t, "the end of the idle sandbox", func() bool { return hasEnded(t, c, "idle") })
	// The node reports this time in whole seconds.
	ended := podOf(t, c, "idle").Status.ContainerStatuses[0].State.Terminated.FinishedAt.Time
	if early := called.Add(spec.Pod.IdleTimeout - time.Second); ended.Before(early) {
		t.Errorf("it ended at %v, before %v", ended, early)
	}
	_, err := s.Stat(t.Context(), ".")
	if !errors.Is(err, launcher.ErrStale) || !strings.Contains(err.Error(), "idle for 30s") {
		t.Errorf("a call to what has ended: %v", err)
	}
	if _, err := k.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrStale) || !strings.Contains(err.Error(), "idle for 30s") {
		t.Errorf("Launch of what has ended: %v", err)
	}
	time.Sleep(time.Until(wasLeft.Add(2 * spec.Pod.IdleTimeout))) // long enough for the sandbox to become idle
	if hasEnded(t, c, "busy") {
		t.Fatal("a sandbox ended while a command was running without a reader")
	}
	if err := harness.Launch(t, k, busy).Signal(t.Context(), left, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the end of the other one", func() bool { return hasEnded(t, c, "busy") })
}

// leaveRunning starts a command in a sandbox, detaches from it, and closes the
// sandbox. It returns the exec id.
func leaveRunning(t *testing.T, s *launcher.Sandbox) string {
	t.Helper()
	cmd := s.Command(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(cmd.Process.Detach(), s.Close()); err != nil {
		t.Fatal(err)
	}
	return cmd.ID
}

func TestExtendedSandboxLivesOn(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("short")
	spec.Pod.Lifetime = time.Minute
	harness.Launch(t, k, spec)
	long := spec
	long.ID = "long"
	s := harness.Launch(t, k, long)
	before, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now, err := k.Extend(t.Context(), "long", time.Millisecond)
	if err != nil || !now.Equal(before.Expires) {
		t.Errorf("an extension by less than the remaining time: %v, was %v: %v", now, before.Expires, err)
	}
	expires, err := k.Extend(t.Context(), "long", time.Hour)
	if err != nil || time.Until(expires) < 50*time.Minute {
		t.Fatalf("Extend: %v, %v", expires, err)
	}
	harness.Await(t, "the end of the one that was not extended", func() bool { return hasEnded(t, c, "short") })
	time.Sleep(time.Until(now) + 2*time.Second) // this one would have ended, too
	info, err := s.Info(t.Context())
	if err != nil || !info.Expires.Equal(expires) {
		t.Errorf("the extended one says %v, not %v: %v", info.Expires, expires, err)
	}
	// A restarted agent knows the new time.
	c.KillAgent(t, info.PodUID)
	harness.Await(t, "the next agent", func() bool {
		again, err := s.Info(t.Context())
		return err == nil && again.BootID != info.BootID && again.Expires.Equal(expires)
	})
	if _, err := k.Extend(t.Context(), "long", 24*time.Hour); !errors.Is(err, launcher.ErrDeadline) {
		t.Errorf("beyond the active deadline: %v", err)
	}
	harness.Launch(t, k, c.Spec("without"))
	if _, err := k.Extend(t.Context(), "without", time.Hour); !errors.Is(err, launcher.ErrNoLifetime) {
		t.Errorf("without a lifetime: %v", err)
	}
	if _, err := k.Extend(t.Context(), "none", time.Hour); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}

// Concurrent extensions never shorten each other, in the pod or in the agent.
func TestExtensionsAtOnceEndAtTheLatest(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	spec.Pod.Lifetime = 10 * time.Minute
	s := harness.Launch(t, k, spec)
	var all sync.WaitGroup
	for minutes := range 8 {
		all.Go(func() {
			if _, err := k.Extend(t.Context(), "a", time.Duration(20+minutes)*time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	info, err := s.Info(t.Context())
	if err != nil || time.Until(info.Expires) < 26*time.Minute || podOf(t, c, "a").Annotations[podmeta.AnnotationExpires] != info.Expires.UTC().Format(time.RFC3339Nano) {
		t.Errorf("the agent says %v, the pod %s: %v", info.Expires, podOf(t, c, "a").Annotations[podmeta.AnnotationExpires], err)
	}
	for _, d := range []time.Duration{0, -time.Hour, 2400000 * time.Hour} {
		if _, err := k.Extend(t.Context(), "a", d); !errors.As(err, new(*launcher.SpecError)) {
			t.Errorf("by %v: %v", d, err)
		}
	}
}

// Other containers in the pod do not keep it from ending.
func TestIdleSandboxWithASidecarHasEnded(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	spec.Pod.IdleTimeout = 30 * time.Second
	spec.Pod.Patch = []byte(`{"spec": {"containers": [{"name": "sidecar", "image": "` + c.Image + `", "command": ["sleep", "600"],
		"securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}}`)
	harness.Launch(t, k, spec)
	harness.Await(t, "its end", func() bool {
		list, err := k.List(t.Context())
		return err == nil && len(list) == 1 && list[0].State == launcher.Ended
	})
	if _, err := k.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("Open: %v", err)
	}
}

// Commands in the sandbox cannot end it for good with a signal to the agent, where the
// kernel lets them send one.
func TestSandboxThatEndsItselfSurvivesASignalFromInside(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.IdleTimeout, spec.Pod.Confine = time.Hour, "off"
	s := harness.Launch(t, c.Launcher(), spec)
	_ = s.Shell(t.Context(), "kill -TERM 1; sleep 30").Run() // it ends with the agent
	harness.Await(t, "the container's next start", func() bool {
		status := podOf(t, c, "a").Status.ContainerStatuses
		return len(status) > 0 && status[0].RestartCount == 1 && status[0].State.Running != nil
	})
	harness.Put(t, s, "file", "x")
}

func TestPausedSandboxWithALifetimeGetsAllOfItAgain(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := keptSpec(t, c, "a")
	spec.Pod.Lifetime = time.Minute
	harness.Put(t, harness.Launch(t, k, spec), "file", "kept")
	harness.Await(t, "its end", func() bool { return hasEnded(t, c, "a") })
	least := time.Now().Add(spec.Pod.Lifetime)
	s, err := k.Resume(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := s.Info(t.Context())
	if err != nil || info.Expires.Before(least) {
		t.Errorf("it expires at %v, want %v or later: %v", info.Expires, least, err)
	}
	wantKept(t, s)
}
