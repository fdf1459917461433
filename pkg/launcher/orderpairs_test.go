//go:build linux && !race

package launcher_test

// With the race detector, random orders of three operations are tried alone: they run the same
// code.

import (
	"fmt"
	"os"
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
	{nil, []string{"failed warm", "cold"}},
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
	{[]string{"kept"}, []string{"kept", "terminate"}},
	{[]string{"kept"}, []string{"pause", "terminate"}},
	{nil, []string{"warm kept", "warm kept"}},
	{nil, []string{"warm kept", "warm"}},
	{nil, []string{"warm kept", "cold"}},
	{nil, []string{"warm kept", "open"}},
	{nil, []string{"warm kept", "pause"}},
	{nil, []string{"warm kept", "terminate"}},
	{nil, []string{"failed kept", "open"}},
	{[]string{"warm kept"}, []string{"pause", "terminate"}},
	{[]string{"warm kept"}, []string{"kept", "pause"}},
	{[]string{"warm kept"}, []string{"open", "terminate"}},
	{[]string{"kept", "pause"}, []string{"warm kept", "resume"}},
	{[]string{"kept", "pause"}, []string{"warm kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"warm kept", "resume"}},
	{[]string{"warm kept", "pause"}, []string{"warm", "resume"}},
}

// longPairs have more than a hundred orders, or are near others that are always tried. They are
// tried at full size alone.
var longPairs = []struct{ before, names []string }{
	{nil, []string{"warm kept", "kept"}},
	{nil, []string{"failed kept", "kept"}},
	{[]string{"warm kept"}, []string{"warm kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"warm kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"kept", "terminate"}},
	{[]string{"warm kept", "pause"}, []string{"resume", "terminate"}},
}

func TestOneIDStaysOneSandboxInEachOrderOfCalls(t *testing.T) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	c.Storage(t, 0)
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		pairs = append(pairs, longPairs...)
	}
	for _, pair := range pairs {
		t.Run(fmt.Sprintf("%s after %s", pair.names, pair.before), func(t *testing.T) {
			orders := interleave.All(t, 2000, func(s *interleave.Schedule) {
				run(t, c, 1, pair.before, pair.names, s)
			})
			t.Logf("%d orders", orders)
		})
	}
}
