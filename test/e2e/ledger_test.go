package e2e

// Ledgers in Leases.

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
	"github.com/podagent/podagent/pkg/launcher/podmeta"
)

func leasesOf(c *launchertest.Cluster) *ledger.Leases {
	return &ledger.Leases{Config: c.Orchestrator, Namespace: c.Namespace}
}

// amend changes a ledger to a text that means something until then.
func amend(t *testing.T, l *ledger.Leases, name string, until time.Time, change func(old string) string) {
	t.Helper()
	err := l.Amend(t.Context(), name, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		return []byte(change(string(old))), until, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// mustHaveLedgers compares the Leases of ledgers in the cluster.
func mustHaveLedgers(t *testing.T, c *launchertest.Cluster, names ...string) {
	t.Helper()
	list, err := c.API(t).CoordinationV1().Leases(c.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: podmeta.LabelLedger})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, lease := range list.Items {
		there[lease.Name] = true
	}
	for _, name := range names {
		if !there[name] {
			t.Errorf("there is no Lease %s", name)
		}
	}
	if len(there) != len(names) {
		t.Errorf("there are the Leases %v, want %v", there, names)
	}
}

func TestLedgerLosesNoChange(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	hour := time.Now().Add(time.Hour)
	const writers, each = 6, 10
	var all sync.WaitGroup
	for range writers {
		l := leasesOf(c)
		all.Go(func() {
			for range each {
				amend(t, l, "n", hour, func(old string) string {
					n, _ := strconv.Atoi(old) // none is 0
					return strconv.Itoa(n + 1)
				})
			}
		})
	}
	all.Wait()
	l, last := leasesOf(c), ""
	mustHaveLedgers(t, c, "ledger.n")
	amend(t, l, "n", hour, func(old string) string { last = old; return "" })
	if last != strconv.Itoa(writers*each) {
		t.Errorf("the sum is %s, want %d", last, writers*each)
	}
	mustHaveLedgers(t, c)
}

// A change sees what was written since it read, even if nothing is left of that.
func TestLedgerChangesOnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	l, other, hour := leasesOf(c), leasesOf(c), time.Now().Add(time.Hour)
	for _, text := range []string{"", "unchanged", "changed"} {
		calls := 0
		amend(t, l, "n", hour, func(old string) string {
			if calls++; calls == 1 {
				amend(t, other, "n", hour, func(string) string { return "other" })
				amend(t, other, "n", hour, func(string) string { return "" })
			}
			if text == "unchanged" {
				return old
			}
			return text
		})
		if calls != 2 {
			t.Errorf("a change to %q was made %d times, want 2", text, calls)
		}
		amend(t, l, "n", hour, func(string) string { return "unchanged" })
	}
}

func TestLedgersWhoseTimeIsOverAreRemoved(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	l, now := leasesOf(c), time.Now()
	write := func(string) string { return "x" }
	amend(t, l, "old", now.Add(-time.Hour), write)
	amend(t, l, "new", now.Add(time.Hour), write)
	for _, name := range []string{"old", "new"} {
		mustWrite(t, c, "ledger."+name, now.Add(-2*time.Hour), map[string]int32{"old": 1, "new": 3 * 3600}[name])
	}
	amend(t, leasesOf(c), "another", now.Add(time.Hour), write)
	mustHaveLedgers(t, c, "ledger.new", "ledger.another")
}

// mustWrite gives a Lease a time in the past.
func mustWrite(t *testing.T, c *launchertest.Cluster, name string, renewed time.Time, seconds int32) {
	t.Helper()
	leases := c.API(t).CoordinationV1().Leases(c.Namespace)
	lease, err := leases.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: renewed}, &seconds
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
