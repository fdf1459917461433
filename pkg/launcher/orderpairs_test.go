//go:build linux && !race

package launcher_test

// With the race detector, random orders of three operations are tried alone: they run the same
// code.

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/internal/interleave"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// pairs are the operations that may meet, each with what comes before.
var pairs = []struct{ before, names []string }{
	{nil, []string{"warm", "warm"}},
	{nil, []string{"warm", "cold"}},
	{nil, []string{"warm", "kept"}},
	{nil, []string{"warm", "open"}},
	{nil, []string{"cold", "open"}},
	{nil, []string{"warm", "terminate"}},
	{nil, []string{"failed warm", "warm"}},
	{nil, []string{"failed warm", "open"}},
	{nil, []string{"failed cold", "warm"}},
	{[]string{"warm"}, []string{"warm", "terminate"}},
	{[]string{"warm"}, []string{"cold", "terminate"}},
	{[]string{"warm"}, []string{"open", "terminate"}},
	{[]string{"warm"}, []string{"terminate", "terminate"}},
	{[]string{"cold"}, []string{"warm", "terminate"}},
	{[]string{"kept"}, []string{"warm", "pause"}},
	{[]string{"kept", "pause"}, []string{"warm", "resume"}},
	{[]string{"kept", "pause"}, []string{"warm", "terminate"}},
	{[]string{"kept", "pause"}, []string{"kept", "terminate"}},
	{[]string{"kept", "pause"}, []string{"resume", "terminate"}},
	{[]string{"kept", "end"}, []string{"sweep", "resume"}},
	{nil, []string{"warm kept", "open"}},
	{nil, []string{"warm kept", "pause"}},
	{nil, []string{"warm kept", "terminate"}},
	{[]string{"warm kept"}, []string{"pause", "terminate"}},
	{[]string{"warm kept"}, []string{"kept", "pause"}},
	{[]string{"warm kept"}, []string{"open", "terminate"}},
	{[]string{"kept", "pause"}, []string{"warm kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"warm kept", "resume"}},
	{[]string{"warm kept", "pause"}, []string{"warm", "resume"}},
}

// longPairs take ten seconds or more each. All of their orders are tried at full size alone; at
// other times, three at random are.
var longPairs = []struct{ before, names []string }{
	{nil, []string{"failed warm", "cold"}},
	{[]string{"kept"}, []string{"kept", "terminate"}},
	{nil, []string{"warm kept", "warm kept"}},
	{nil, []string{"warm kept", "warm"}},
	{nil, []string{"warm kept", "cold"}},
	{nil, []string{"failed kept", "open"}},
	{[]string{"kept"}, []string{"pause", "terminate"}},
	{[]string{"kept", "pause"}, []string{"warm kept", "resume"}},
	{[]string{"kept", "pause", "overdue"}, []string{"sweep", "resume"}},
	{[]string{"kept", "pause", "overdue"}, []string{"sweep", "pause"}},
	{[]string{"kept", "end"}, []string{"sweep", "sweep"}},
	{nil, []string{"warm kept", "kept"}},
	{nil, []string{"failed kept", "kept"}},
	{[]string{"warm kept"}, []string{"warm kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"warm kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"resume", "terminate"}},
}

func TestOneIDStaysOneSandboxInEachOrderOfCalls(t *testing.T) {
	t.Parallel()
	full := os.Getenv("PODAGENT_TEST_FULL") != ""
	most := 40 // the controllers' own calls make it hundreds now and then
	if full {
		most = 2000
	}
	for i, pair := range slices.Concat(pairs, longPairs) {
		t.Run(fmt.Sprintf("%s after %s", pair.names, pair.before), func(t *testing.T) {
			t.Parallel() // for the calls mostly wait for the cluster
			c := launchertest.NewCluster(t, launcher.Restricted)
			c.Storage(t, 0)
			try := func(s *interleave.Schedule) { run(t, c, 1, pair.before, pair.names, s) }
			if i < len(pairs) || full {
				orders, enough := interleave.All(t, most, try)
				t.Logf("%d orders; all: %v", orders, enough)
				switch {
				case enough:
					return
				case full:
					t.Fatalf("%d runs do not try all orders", most)
				}
			}
			for tries := 0; tries < 3 && !t.Failed(); tries++ {
				interleave.Random(t, try)
			}
		})
	}
}
