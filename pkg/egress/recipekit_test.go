//go:build !race

package egress

import (
	"context"
	"sync"
	"testing"

	"github.com/podagent/podagent/internal/recipetest"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// house is a sandbox that the kernel keeps to its way out, and the test as its far end.
type house struct {
	*launcher.Sandbox
	*Server

	mu        sync.Mutex
	decisions []Decision
}

func newHouse(t testing.TB, opts Options, rules ...string) *house {
	t.Helper()
	sandbox, err := launchertest.Local(t).Launch(t.Context(), launcher.Spec{ID: t.Name(), Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	h := &house{Sandbox: sandbox}
	opts.Policy, opts.Resolver = policyOf(t, rules...), names{}
	opts.Log = func(d Decision) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decisions = append(h.decisions, d)
	}
	if h.Server, err = Serve(context.Background(), sandbox.Client, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Server.Close() })
	return h
}

// trust gives the sandbox the roots of a town, and returns the variables that name them.
func (h *house) trust(t testing.TB, town *recipetest.Town) []string {
	t.Helper()
	if err := h.WriteFile(t.Context(), "roots.pem", []byte(town.PEM), 0); err != nil {
		t.Fatal(err)
	}
	return recipetest.Trust(h.Workdir + "/roots.pem")
}

// told are the decisions about a host.
func (h *house) told(host string) (about []Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.decisions {
		if d.Host == host {
			about = append(about, d)
		}
	}
	return about
}
