package e2e

// Sandboxes that are launched by their first call.

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestLazySandboxIsLaunchedByItsFirstCall(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		spec.OnClose = launcher.CloseDelete
		s, err := launcher.Lazy(l, spec)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if list, err := l.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("before the first call there are %v, %v", list, err)
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { harness.Put(t, s, fmt.Sprint("file-", i), "x") })
		}
		all.Wait()
		if got := len(harness.Names(t, s, ".")); got != 8 {
			t.Errorf("there are %d files of 8", got)
		}
		if list, err := l.List(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("after the first call there are %v, %v", list, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if list, err := l.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("after Close there are %v, %v", list, err)
		}
	})
}

func TestLazySandboxThatCannotBeLaunchedSaysWhy(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := c.Spec("a")
	spec.Pod.Profile = launcher.Baseline // the namespace does not admit it
	s, err := launcher.Lazy(c.Launcher(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		if _, err := s.Stat(t.Context(), "."); !errors.Is(err, launcher.ErrRejected) {
			t.Errorf("a call: %v", err)
		}
	}
}

func TestLazyLocalSandboxThatDiedIsUnavailable(t *testing.T) {
	t.Parallel()
	l := launchertest.Local(t)
	s, err := launcher.Lazy(l, launcher.Spec{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	harness.Put(t, s, "file", "x")
	if err := l.Terminate(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(t.Context(), "."); !errors.Is(err, podapi.ErrUnavailable) {
		t.Errorf("a call: %v", err)
	}
}
