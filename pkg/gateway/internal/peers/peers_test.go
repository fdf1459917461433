package peers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podagent/podagent/pkg/gateway/internal/peers"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// world is a ledger of several gateways.
type world struct {
	*testing.T
	ledger.Files
	down atomic.Bool // for all
	all  sync.WaitGroup
}

// gateway is one of them.
type gateway struct {
	*world
	down  atomic.Bool
	leave context.CancelFunc

	mu   sync.Mutex
	view peers.View
}

var errDown = errors.New("the ledger is away")

func (g *gateway) Amend(ctx context.Context, name string, change ledger.Change) error {
	if g.down.Load() || g.world.down.Load() {
		return errDown
	}
	return g.Files.Amend(ctx, name, change)
}

func (w *world) start() *gateway {
	ctx, cancel := context.WithCancel(w.Context())
	g := &gateway{world: w, leave: cancel}
	p := &peers.Peers{Ledger: g, Text: "egress", Changed: func(v peers.View) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if v.Epoch <= g.view.Epoch {
			w.Errorf("the epoch went from %d to %d", g.view.Epoch, v.Epoch)
		}
		g.view = v
	}}
	w.all.Go(func() { p.Run(ctx) })
	return g
}

func (g *gateway) sees() peers.View {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.view
}

// inWorld runs a test in which three gateways know each other.
func inWorld(t *testing.T, do func(*testing.T, *world, []*gateway)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Files: ledger.Files{Dir: dir}}
		all := []*gateway{w.start(), w.start(), w.start()}
		time.Sleep(5 * time.Second)
		agree(t, all, 3)
		do(t, w, all)
		for _, g := range all {
			g.leave()
		}
		w.all.Wait()
	})
}

// agree checks that gateways see the same, and that each sandbox has one keeper among them.
func agree(t *testing.T, all []*gateway, n int) (epoch uint64) {
	t.Helper()
	first := all[0].sees()
	kept := make([]int, len(all))
	const sandboxes = 300
	for i := range sandboxes {
		keepers := 0
		for j, g := range all {
			if g.sees().Keeps(fmt.Sprint("acme.job-", i)) {
				keepers++
				kept[j]++
			}
		}
		if keepers != 1 {
			t.Fatalf("a sandbox has %d keepers", keepers)
		}
	}
	for i, g := range all {
		v := g.sees()
		if v.Epoch != first.Epoch || !slices.Equal(v.Gateways, first.Gateways) || len(v.Gateways) != n {
			t.Fatalf("they see %+v and %+v, want %d gateways", first, v, n)
		}
		if kept[i] < sandboxes/n/2 {
			t.Errorf("one keeps %d of %d", kept[i], sandboxes)
		}
	}
	return first.Epoch
}

func TestGatewayThatLeavesIsReplacedWithinABeat(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *world, all []*gateway) {
		before := all[1].sees()
		all[0].leave()
		time.Sleep(2100 * time.Millisecond)
		if after := agree(t, all[1:], 2); after <= before.Epoch {
			t.Errorf("the epoch went from %d to %d", before.Epoch, after)
		}
		for i := range 100 { // those that are left keep what they kept
			if id := fmt.Sprint("acme.job-", i); before.Keeps(id) && !all[1].sees().Keeps(id) {
				t.Errorf("%s has another keeper", id)
			}
		}
	})
}

func TestGatewayThatIsKilledIsReplacedWhileAgentsHoldConnections(t *testing.T) {
	inWorld(t, func(t *testing.T, _ *world, all []*gateway) {
		before := all[1].sees().Epoch
		all[0].down.Store(true)
		time.Sleep(8500 * time.Millisecond)
		if after := agree(t, all[1:], 2); after <= before {
			t.Errorf("the epoch went from %d to %d", before, after)
		}
		if old := all[0].sees(); old.Epoch != before {
			t.Errorf("the one that learned nothing is at epoch %d", old.Epoch)
		}
		all[0].down.Store(false) // it was only cut off
		time.Sleep(5 * time.Second)
		agree(t, all, 3)
	})
}

func TestLedgerThatWasAwayTakesNobodyOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, all []*gateway) {
		before := all[0].sees().Epoch
		w.down.Store(true)
		time.Sleep(time.Hour)
		w.down.Store(false)
		time.Sleep(time.Minute)
		if after := agree(t, all, 3); after != before {
			t.Errorf("the epoch went from %d to %d", before, after)
		}
	})
}

func TestTextThatIsLostOrBrokenIsBegunAnew(t *testing.T) {
	for _, text := range []string{"", "no JSON"} {
		inWorld(t, func(t *testing.T, w *world, all []*gateway) {
			before := all[0].sees().Epoch
			err := w.Files.Amend(t.Context(), "egress", func(context.Context, []byte) ([]byte, time.Time, error) { return []byte(text), time.Time{}, nil })
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
			if after := agree(t, all, 3); after <= before {
				t.Errorf("the epoch went from %d to %d", before, after)
			}
		})
	}
}

func TestLastGatewayLeavesNoText(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, Files: ledger.Files{Dir: dir}}
		g := w.start()
		time.Sleep(time.Second)
		if v := g.sees(); !v.Keeps("acme.job-1") {
			t.Errorf("one that is alone sees %+v", v)
		}
		g.leave()
		w.all.Wait()
	})
	if _, err := os.Stat(filepath.Join(dir, "egress")); !os.IsNotExist(err) {
		t.Errorf("there is a text: %v", err)
	}
}

func TestGatewayWithoutALedgerKeepsAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan peers.View, 1)
	p := &peers.Peers{Changed: func(v peers.View) { seen <- v }}
	done := make(chan struct{})
	go func() { defer close(done); p.Run(ctx) }()
	if v := <-seen; !v.Keeps("acme.job-1") || v.Epoch == 0 {
		t.Errorf("it sees %+v", v)
	}
	cancel()
	<-done
}
