package gateway

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// A caller who comes while a sandbox is being opened must not have it taken for one that does not answer.
func TestSandboxThatOpensSlowlyIsOpenedOnceForAllWhoCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		client := podapi.Deferred(
			func(ctx context.Context) (*podapi.Client, error) { return nil, context.Cause(ctx) },
			func() error { return nil },
		)
		h := &held{patience: patience, log: slog.New(slog.DiscardHandler), byID: map[string]*heldSandbox{}}
		h.open = func(context.Context, string, bool) (*launcher.Sandbox, error) {
			opened++
			time.Sleep(patience + 20*time.Second)
			return &launcher.Sandbox{Client: client}, nil
		}
		for _, at := range []time.Duration{0, 5 * time.Second} {
			go func() {
				time.Sleep(at)
				if _, err := h.get(t.Context(), "a", true); !errors.Is(err, errNotYet) {
					t.Errorf("who came after %v: %v", at, err)
				}
			}()
		}
		time.Sleep(patience + 10*time.Second)
		s, err := h.get(t.Context(), "a", true)
		if err != nil || opened != 1 {
			t.Fatalf("it was opened %d times: %v", opened, err)
		}
		h.release("a", s)
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
}

// A Sandbox that another client has made must not stay in the place of a tenant's own of its name.
func TestNewSandboxComesBeforeAForeignOneOfItsName(t *testing.T) {
	sandbox := func() *launcher.Sandbox {
		return &launcher.Sandbox{Client: podapi.Deferred(nil, func() error { return nil })}
	}
	h := &held{patience: patience, log: slog.New(slog.DiscardHandler), byID: map[string]*heldSandbox{}}
	own, another := sandbox(), sandbox()
	next := another
	h.open = func(context.Context, string, bool) (*launcher.Sandbox, error) { return next, nil }
	used := func() (s *launcher.Sandbox) {
		if err := h.use(t.Context(), foreign{allowed: true}.id("acme", "job"), true, func(of *launcher.Sandbox) error { s = of; return nil }); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if used() != another {
		t.Fatal("the first one is none that was opened")
	}
	next = own
	h.put(launcherID("acme", "job"), own)
	if used() != own {
		t.Error("the one of another client is still used")
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
}
