package console_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/console"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// slow is a tenant that may call a few times in all.
type slow struct {
	gateway.OneTenant
	calls int
}

func (s slow) Policy(ctx context.Context, tenant string) (gateway.Policy, error) {
	policy, err := s.OneTenant.Policy(ctx, tenant)
	policy.Rate = gateway.Rate{PerSecond: 1e-6, Burst: s.calls}
	return policy, err
}

// counting counts what is done to a ledger.
type counting struct {
	gateway.Ledger
	times atomic.Int64
}

func (c *counting) Amend(ctx context.Context, name string, change func(context.Context, []byte) ([]byte, time.Time, error)) error {
	c.times.Add(1)
	return c.Ledger.Amend(ctx, name, change)
}

// acts counts what callers do.
type acts struct{ times atomic.Int64 }

func (a *acts) Begin(context.Context, gateway.Act) error        { a.times.Add(1); return nil }
func (*acts) End(context.Context, gateway.Act, gateway.Outcome) {}

// A session ends by one call of its tenant, and one message to the replicas, however often it is ended.
func TestLogoutsOfASessionCostOneCallAndOneMessage(t *testing.T) {
	d := newDoor(t)
	told, done := &counting{Ledger: ledger.Files{Dir: d.ledger}}, &acts{}
	g := gateway.New(gateway.Options{
		Ledger: told, Launcher: launchertest.Local(t), Tenants: slow{d.tenant, 3}, LinkKeys: &gateway.LinkKeys{Path: d.linkKey}, Observers: []gateway.Observer{done},
	})
	defer g.Close()
	d.console = console.New(console.Options{Gateway: g})
	cookie, another := d.logIn(), d.logIn()
	before, acted := told.times.Load(), done.times.Load()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				d.want("a logout", d.ask(d.console, "POST", "/console/logout", "", cookie), 204)
			}
		})
	}
	all.Wait()
	if n := told.times.Load() - before; n > 1 {
		t.Errorf("the ledger is changed %d times", n)
	}
	if n := done.times.Load() - acted; n != 1 {
		t.Errorf("observers are told of %d calls", n)
	}
	d.want("a call of another session", d.ask(d.console, "GET", list, "", another), 429)
	d.want("a logout without any call left", d.ask(d.console, "POST", "/console/logout", "", another), 204)
	other := console.New(console.Options{Gateway: d.newGateway("")})
	for _, cookie := range []string{cookie, another} {
		d.want("a session that has ended, at another replica", d.ask(other, "GET", list, "", cookie), 401)
	}
}
