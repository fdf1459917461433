package e2e

// What is only for pods, by the remote launcher.

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// podsByRemote returns the launcher of a gateway over pods, which may keep the files of n sandboxes.
func podsByRemote(t *testing.T, n int) *remote.Launcher {
	t.Helper()
	c := launchertest.NewCluster(t, launcher.Restricted)
	base := c.Spec("")
	base.Pod.Workspace.StorageClass = c.Storage(t, n)
	l, _ := behindAGateway(t, c.Launcher(), base)
	return l
}

// wantRemoteState expects that a gateway says this of a sandbox.
func wantRemoteState(t *testing.T, l *remote.Launcher, id string, want launcher.State) {
	t.Helper()
	harness.Await(t, id+" is "+string(want), func() bool { // it answers before its node has reported that it runs
		got, err := l.Find(t.Context(), id)
		return err == nil && got.State == want
	})
}

func TestPodIsPausedAndResumedThroughAGateway(t *testing.T) {
	t.Parallel()
	l, ctx := podsByRemote(t, 1), t.Context()
	s, err := l.Launch(ctx, keptByRemote("job-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.WriteFile(ctx, "file", []byte("kept"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := l.Pause(ctx, "job-1"); err != nil {
		t.Fatal(err)
	}
	wantRemoteState(t, l, "job-1", launcher.Paused)
	_, openErr := l.Open(ctx, "job-1")
	_, readErr := s.ReadFile(ctx, "file") // by the client that was open before
	for call, err := range map[string]error{"open": openErr, "a call": readErr} {
		if !errors.Is(err, launcher.ErrPaused) {
			t.Errorf("%s of one that is paused: %v", call, err)
		}
	}
	resumed, err := l.Resume(ctx, "job-1")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	if kept, err := resumed.ReadFile(ctx, "file"); err != nil || string(kept) != "kept" || resumed.Workdir != s.Workdir {
		t.Errorf("%q in %s, want it in %s: %v", kept, resumed.Workdir, s.Workdir, err)
	}
	wantRemoteState(t, l, "job-1", launcher.Running)
	if err := l.Terminate(ctx, "job-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Resume(ctx, "job-1"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("resuming one that was removed: %v", err)
	}
}

func TestEndOfAPodIsSetThroughAGateway(t *testing.T) {
	t.Parallel()
	l, ctx := podsByRemote(t, 1), t.Context()
	spec := launcher.Spec{ID: "job-1"}
	spec.Pod.Lifetime = 10 * time.Minute
	s, err := l.Launch(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	wantEnd := func(want time.Time) {
		t.Helper()
		info, err := s.Info(ctx)
		found, findErr := l.Find(ctx, "job-1")
		if err := errors.Join(err, findErr); err != nil || !info.Expires.Equal(want) || !found.Expires.Equal(want) {
			t.Errorf("the agent says %v, the gateway %v, want %v: %v", info.Expires, found.Expires, want, err)
		}
	}
	before := time.Now()
	later, err := l.Extend(ctx, "job-1", time.Hour)
	if err != nil || later.Before(before.Add(time.Hour)) {
		t.Fatalf("extended until %v, want an hour after %v: %v", later, before, err)
	}
	wantEnd(later)
	at := time.Now().Add(30 * time.Minute)
	if got, err := l.Expire(ctx, "job-1", at); err != nil || !got.Equal(at) {
		t.Fatalf("set to %v, want %v: %v", got, at, err)
	}
	wantEnd(at)
	if _, err := l.Expire(ctx, "job-1", time.Now().Add(1000*time.Hour)); !errors.Is(err, launcher.ErrDeadline) {
		t.Errorf("after the pod's deadline: %v", err)
	}
	if _, err := l.Expire(ctx, "job-1", time.Now().Add(-time.Hour)); !isSpecError(err, "Pod.Lifetime") {
		t.Errorf("in the past: %v", err)
	}
	if err := l.Pause(ctx, "job-1"); !errors.Is(err, launcher.ErrNotKept) {
		t.Errorf("a pause that would lose the files: %v", err)
	}
	wantEnd(at)
	if _, err := l.Expire(ctx, "job-1", time.Now().Add(10*time.Second)); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "its end", func() bool {
		found, err := l.Find(ctx, "job-1")
		return err == nil && found.State == launcher.Ended
	})
	if _, err := l.Open(ctx, "job-1"); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("opening one that has ended: %v", err)
	}
	if _, err := l.Extend(ctx, "job-1", time.Hour); !errors.Is(err, launcher.ErrStale) {
		t.Errorf("extending one that has ended: %v", err)
	}
}

func isSpecError(err error, field string) bool {
	e, ok := errors.AsType[*launcher.SpecError](err)
	return ok && e.Field == field
}

func keptByRemote(id string) launcher.Spec {
	spec := launcher.Spec{ID: id}
	spec.Pod.Workspace = launcher.Workspace{Keep: true, Size: resource.MustParse("1Gi")}
	return spec
}
