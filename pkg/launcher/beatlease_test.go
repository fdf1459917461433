package launcher_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

// An object has room for the UIDs of some thousand pods.
func TestHeartbeatsOfThousandsAreInSeveralLeases(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	write, read, err := c.Launcher().Heartbeats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Truncate(time.Microsecond)
	for i, size := range []struct{ pods, leases int }{{5000, 1}, {12_000, 3}, {5001, 2}, {1, 1}, {0, 0}} {
		beat := now.Add(time.Duration(i) * time.Minute)
		parts, uids := map[int][]string{}, []string{}
		for n := range size.pods {
			uid := fmt.Sprintf("%08d-0000-0000-0000-000000000000", n)
			parts[n/5000] = append(parts[n/5000], uid)
			uids = append(uids, uid)
		}
		if err := write(t.Context(), parts, beat); err != nil {
			t.Fatalf("%d pods: %v", size.pods, err)
		}
		list, err := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelHeartbeats})
		if err != nil || len(list.Items) != size.leases {
			t.Errorf("%d pods are in %d Leases, want %d: %v", size.pods, len(list.Items), size.leases, err)
		}
		beats, err := read(t.Context(), append(uids, "another"))
		if err != nil || len(beats) != size.pods+1 || !beats["another"].IsZero() {
			t.Errorf("%d pods have heartbeats, want %d: %v", len(beats)-1, size.pods, err)
		}
		for _, uid := range uids {
			if !beats[uid].Equal(beat) {
				t.Fatalf("of %d pods, %s has the heartbeat %v, want %v", size.pods, uid, beats[uid], beat)
			}
		}
	}
}
