package e2e

// Sandboxes whose end is set.

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// wantExpiry expects that pod and agent say when the sandbox ends.
func wantExpiry(t *testing.T, k *launcher.Kubernetes, s *launcher.Sandbox, want time.Time) {
	t.Helper()
	info, err := s.Info(t.Context())
	found, findErr := k.Find(t.Context(), s.ID)
	if err := errors.Join(err, findErr); err != nil || !info.Expires.Equal(want) || !found.Expires.Equal(want) {
		t.Errorf("the agent says %v, the pod %v, want %v: %v", info.Expires, found.Expires, want, err)
	}
}

func TestExpiresMayBeSetEarlier(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	spec.Pod.Lifetime = time.Hour
	s := harness.Launch(t, k, spec)
	for _, in := range []time.Duration{30 * time.Minute, 50 * time.Minute, 40 * time.Minute} {
		at := time.Now().Add(in)
		if got, err := k.Expire(t.Context(), "a", at); err != nil || !got.Equal(at) {
			t.Fatalf("in %v: %v, %v", in, got, err)
		}
		wantExpiry(t, k, s, at)
		if got, err := k.Extend(t.Context(), "a", time.Minute); err != nil || !got.Equal(at) {
			t.Errorf("an extension by less than the remaining time: %v, want %v: %v", got, at, err)
		}
		wantExpiry(t, k, s, at)
	}
	if _, err := k.Expire(t.Context(), "a", time.Now().Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "its end", func() bool { return hasEnded(t, c, "a") })
	if _, err := k.Expire(t.Context(), "a", time.Now().Add(time.Hour)); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("of one that has ended: %v", err)
	}
}

func TestExpiresThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	spec.Pod.Lifetime = time.Hour
	s := harness.Launch(t, k, spec)
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{{}, time.Now().Add(-time.Second), time.Now().AddDate(100, 0, 0)} {
		if _, err := k.Expire(t.Context(), "a", at); !errors.As(err, new(*launcher.SpecError)) {
			t.Errorf("at %v: %v", at, err)
		}
	}
	if _, err := k.Expire(t.Context(), "a", time.Now().Add(24*time.Hour)); !errors.Is(err, launcher.ErrDeadline) {
		t.Errorf("beyond the active deadline: %v", err)
	}
	wantExpiry(t, k, s, info.Expires)
	harness.Launch(t, k, c.Spec("without"))
	if _, err := k.Expire(t.Context(), "without", time.Now().Add(time.Hour)); !errors.Is(err, launcher.ErrNoLifetime) {
		t.Errorf("without a lifetime: %v", err)
	}
	if _, err := k.Expire(t.Context(), "none", time.Now().Add(time.Hour)); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}

// Whichever of several calls is the last, the agent is told what the pod says.
func TestExpiresAtOnceLeaveOneForPodAndAgent(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	k := c.Launcher()
	spec := c.Spec("a")
	spec.Pod.Lifetime = time.Hour
	s := harness.Launch(t, k, spec)
	var all sync.WaitGroup
	for minutes := range 4 {
		all.Go(func() {
			if _, err := k.Expire(t.Context(), "a", time.Now().Add(time.Duration(20+minutes)*time.Minute)); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			if _, err := k.Extend(t.Context(), "a", time.Duration(22+minutes)*time.Minute); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found, err := k.Find(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	wantExpiry(t, k, s, found.Expires)
}
