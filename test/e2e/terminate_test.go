package e2e

// Sandboxes that end with Sandbox.Terminate.

import (
	"errors"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// isGone checks that there is no sandbox any more, not even a paused one.
func isGone(t *testing.T, l launcher.Launcher) {
	t.Helper()
	if list, err := l.List(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("there are %v, %v", list, err)
	}
}

func TestSandboxTerminatesItself(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		for name, onClose := range map[string]launcher.OnClose{"one that stays": launcher.CloseKeep, "one that ends at Close": launcher.CloseDelete} {
			spec.OnClose = onClose
			s := harness.Launch(t, l, spec)
			harness.Put(t, s, "file", "x")
			for range 2 { // the second call has nothing to do
				if err := s.Terminate(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			isGone(t, l)
			if _, err := s.Stat(t.Context(), "file"); err == nil {
				t.Errorf("%s: a call is answered", name)
			}
			if err := s.Close(); err != nil {
				t.Errorf("%s: Close afterwards: %v", name, err)
			}
		}
	})
}

func TestOpenSandboxTerminatesItselfAfterClose(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		harness.Launch(t, l, spec).Close()
		s, err := l.Open(t.Context(), spec.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Close(), s.Terminate(t.Context())); err != nil {
			t.Error(err)
		}
		isGone(t, l)
	})
}

func TestCloseAfterTerminateLeavesTheNextSandboxAlone(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		spec.OnClose = launcher.CloseDelete
		s := harness.Launch(t, l, spec)
		if err := s.Terminate(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := harness.Launch(t, l, spec)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		harness.Put(t, next, "file", "x")
	})
}

func TestLazySandboxTerminatesWhatItLaunched(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		s, err := launcher.Lazy(l, spec)
		if err != nil {
			t.Fatal(err)
		}
		harness.Put(t, s, "file", "x")
		if err := errors.Join(s.Terminate(t.Context()), s.Close()); err != nil {
			t.Error(err)
		}
		isGone(t, l)
	})
}

func TestLazySandboxThatWasNotLaunchedTerminatesNothing(t *testing.T) {
	overEachLauncher(t, func(t *testing.T, l launcher.Launcher, spec launcher.Spec) {
		other := harness.Launch(t, l, spec)
		s, err := launcher.Lazy(l, spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Terminate(t.Context()); err != nil {
			t.Error(err)
		}
		harness.Put(t, other, "file", "x") // the same id, from another caller
	})
}
