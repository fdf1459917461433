package e2e

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// reaperMay and reaperMayNot are rights of the reaper's account, as [may] takes them.
var (
	reaperMay = []string{
		"list pods", "get pods", "delete pods", "get pods/portforward", "create pods/portforward",
		"list coordination.k8s.io:leases", "get secrets " + launcher.DefaultIdentitySecret,
	}
	reaperMayNot = []string{
		"create pods", "patch pods", "update pods", "deletecollection pods",
		"create pods/exec", "get pods/exec", "create pods/attach", "get pods/attach", "create pods/proxy", "get pods/log",
		"patch pods/ephemeralcontainers", "create serviceaccounts/token",
		"create secrets", "list secrets", "get secrets other", "delete secrets " + launcher.DefaultIdentitySecret,
		"delete persistentvolumeclaims", "list persistentvolumeclaims", "create coordination.k8s.io:leases", "update coordination.k8s.io:leases", "delete coordination.k8s.io:leases", "create batch:jobs",
	}
)

func TestReapersAccountReapsAndMayDoNothingElse(t *testing.T) {
	t.Parallel()
	for _, way := range []launcher.Connection{launcher.ByPortForward, launcher.ByAddress} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted).By(t, way)
			with := func(config *rest.Config) *launcher.Kubernetes {
				return &launcher.Kubernetes{Config: config, Namespace: c.Namespace, IdentitySecret: launcher.DefaultIdentitySecret, Connection: way}
			}
			launchForgotten(t, c, with(c.Admin), "idle")
			busy := launchForgotten(t, c, with(c.Admin), "busy")
			if err := busy.Command(t.Context(), "sleep", "600").Start(); err != nil {
				t.Fatal(err)
			}
			apply(t, c, "reaper.yaml")
			account, err := c.Account(t.Context(), "podagent-reaper")
			if err != nil {
				t.Fatal(err)
			}
			checkReaps(t, with(account), "idle", "idle", "busy")
			reaper := *c
			reaper.Orchestrator = account
			checkReapersRights(t, &reaper)
		})
	}
}

// launchForgotten launches a sandbox that has no heartbeat.
func launchForgotten(t *testing.T, c *launchertest.Cluster, k *launcher.Kubernetes, id string) *launcher.Sandbox {
	t.Helper()
	spec := c.Spec(id)
	spec.Take.Heartbeat = launcher.HeartbeatOff
	return harness.Launch(t, k, spec)
}

// checkReaps checks that a reaper can tell that only the one sandbox is idle, and can delete
// them all. An agent that does not answer in time counts as idle, so it may take some tries.
func checkReaps(t *testing.T, k *launcher.Kubernetes, idle string, all ...string) {
	t.Helper()
	reap := func(opts launcher.ReapOptions) []string {
		opts.StaleAfter = time.Nanosecond
		list, err := k.Reap(t.Context(), opts)
		if errors.Is(err, launcher.ErrForbidden) {
			t.Fatal(err)
		} else if err != nil {
			t.Log(err) // it is tried again
		}
		return idsOf(list)
	}
	harness.Await(t, "the answer that one is idle", func() bool {
		return slices.Equal(reap(launcher.ReapOptions{DryRun: true}), []string{idle})
	})
	harness.Await(t, "the end of all", func() bool {
		ended := reap(launcher.ReapOptions{HeartbeatOnly: true})
		all = slices.DeleteFunc(all, func(id string) bool { return slices.Contains(ended, id) })
		return len(all) == 0
	})
}

func checkReapersRights(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	for _, what := range reaperMay {
		if !may(t, c, what) {
			t.Errorf("the reaper may not %s", what)
		}
	}
	for _, what := range reaperMayNot {
		if may(t, c, what) {
			t.Errorf("the reaper may %s", what)
		}
	}
}
