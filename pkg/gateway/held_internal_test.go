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
