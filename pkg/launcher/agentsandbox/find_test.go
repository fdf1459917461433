//go:build linux

package agentsandbox_test

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// An object says all this, whether or not a controller acts.
func TestFindDescribesOneSandboxWithItsLabelsAndItsEnd(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.InstallAgentSandbox(t)
	if err := c.Apply(t.Context(), filepath.Join("..", "..", "..", "deploy", "agent-sandbox-rbac.yaml")); err != nil {
		t.Fatal(err)
	}
	l := &agentsandbox.Launcher{Cluster: c.Launcher()}
	for name, pool := range map[string]string{"direct": "", "claim": "missing"} {
		t.Run(name, func(t *testing.T) {
			spec := c.Spec(name)
			spec.Labels, spec.Take.Pool, spec.Pod.Lifetime = map[string]string{"team": "red"}, pool, time.Hour
			if _, err := l.Find(t.Context(), name); !errors.Is(err, launcher.ErrNotFound) {
				t.Errorf("Find of none: %v", err)
			}
			if _, _, err := l.Acquire(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			later := spec
			later.Labels = map[string]string{"team": "blue"}
			if _, _, err := l.Acquire(t.Context(), later); err != nil {
				t.Fatal(err)
			}
			at := time.Now().Add(30 * time.Minute)
			ends, err := l.Expire(t.Context(), name, at)
			if err != nil || ends.Before(at) || ends.Sub(at) >= time.Second {
				t.Fatalf("it ends at %v, want %v, in whole seconds: %v", ends, at, err)
			}
			if put, err := l.Extend(t.Context(), name, time.Minute); err != nil || !put.Equal(ends) {
				t.Errorf("an extension by less than the remaining time: %v, want %v: %v", put, ends, err)
			}
			found, err := l.Find(t.Context(), name)
			if err != nil || !maps.Equal(found.Labels, spec.Labels) || !found.Expires.Equal(ends) {
				t.Errorf("found %+v: %v", found, err)
			}
			listed, err := l.List(t.Context())
			if err != nil || len(listed) != 1 || listed[0].ID != found.ID || !maps.Equal(listed[0].Labels, found.Labels) || !listed[0].Expires.Equal(ends) {
				t.Errorf("listed %+v, found %+v: %v", listed, found, err)
			}
			if _, err := l.Expire(t.Context(), name, time.Now().Add(-time.Second)); !errors.As(err, new(*launcher.SpecError)) {
				t.Errorf("in the past: %v", err)
			}
			if err := l.Terminate(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Expire(t.Context(), name, at); !errors.Is(err, launcher.ErrNotFound) {
				t.Errorf("of none: %v", err)
			}
		})
	}
}
