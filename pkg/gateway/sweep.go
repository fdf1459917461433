package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/launcher"
)

// One gateway of those over the same sandboxes sweeps for all: it ends what is over and nobody ends,
// keeps what lives from being reaped, and settles the books of tenants. Another goes on when it ends.
// Two may sweep at once when one was stopped for a while: each act looks again whether it still
// applies, and hits nothing that came since.

// Leader chooses one of several gateways: see package leader of the launcher.
type Leader interface {
	// Lead calls do while this gateway leads, each time that it begins to. The context of do ends
	// when it leads no more. Lead returns when ctx has ended and do has returned.
	Lead(ctx context.Context, do func(context.Context))
}

// sweepable is a launcher whose sandboxes end by themselves, and leave something.
type sweepable interface {
	// Sweep removes what is over of a sandbox, and reports whether that was anything.
	Sweep(ctx context.Context, id string) (bool, error)
	// Heartbeat keeps a sandbox from being reaped.
	Heartbeat(ctx context.Context, id string) error
}

// startSweeper lets the gateway sweep when it leads, until life ends.
func (g *Gateway) startSweeper(life context.Context) {
	if g.Leader != nil {
		g.sweeper.Go(func() { g.Leader.Lead(life, g.sweepOn) })
	}
}

// sweepOn sweeps until ctx ends.
func (g *Gateway) sweepOn(ctx context.Context) {
	var settled time.Time // when the books were
	for ctx.Err() == nil {
		g.sweep(ctx)
		if time.Since(settled) >= settleInterval {
			settled = time.Now()
			g.settleBooks(ctx)
		}
		delay.For(ctx, sweepInterval)
	}
}

// sweep looks at all sandboxes once.
func (g *Gateway) sweep(ctx context.Context) {
	l, ok := g.Launcher.(sweepable)
	if !ok {
		return
	}
	all, err := g.Launcher.List(ctx)
	if err != nil && ctx.Err() == nil {
		g.Log.WarnContext(ctx, "cannot list all sandboxes to sweep", "error", err)
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, sweepsAtOnce)
	for _, s := range all {
		do := dutyOf(s, time.Now())
		if do == nil {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, sweepTime)
			defer cancel()
			if err := do(ctx, g, l, s); err != nil && !errors.Is(err, launcher.ErrNotFound) && ctx.Err() != context.Canceled {
				g.Log.WarnContext(ctx, "cannot sweep a sandbox", "sandbox", s.ID, "error", err)
			}
		})
	}
	running.Wait()
}

// duty is what is done about a sandbox.
type duty func(context.Context, *Gateway, sweepable, launcher.Summary) error

// dutyOf returns what is to be done about a sandbox; nil for nothing, such as for those that gateways
// have not made.
func dutyOf(s launcher.Summary, now time.Time) duty {
	if s.Labels[labelIdentity] == "" || !strings.Contains(s.ID, separator) {
		return nil
	}
	unneeded := now.Sub(s.Heartbeat) > launcher.DefaultStaleAfter
	expired := hasExpired(s)
	switch {
	case s.State == launcher.Ended && (sleeps(s) || expired || unneeded),
		s.State == launcher.Pending && (expired || unneeded),
		s.State == launcher.Running && expired,
		s.State == launcher.Paused && expired && now.Sub(s.Expires) > expiredStay:
		return removeOver
	case s.State == launcher.Running && now.Sub(s.Heartbeat) > beatAfter:
		return keepAlive
	}
	return nil
}

// removeOver removes what is over of a sandbox.
func removeOver(ctx context.Context, g *Gateway, l sweepable, s launcher.Summary) error {
	done, err := l.Sweep(ctx, s.ID)
	if !done {
		return err
	}
	reason := "ended"
	switch {
	case hasExpired(s):
		reason = "expired"
	case sleeps(s):
		reason = "paused"
	}
	g.Log.InfoContext(ctx, "swept a sandbox", "sandbox", s.ID, "was", s.State, "reason", reason)
	g.held.forget(s.ID)
	g.waysOut.forget(s.ID)
	g.forgetLookups(s.ID)
	if g.Swept != nil {
		g.Swept(reason)
	}
	return err
}

// keepAlive says that a sandbox is needed: it lives until its time is over, also if the gateway that
// made it is gone, and nobody calls.
func keepAlive(ctx context.Context, _ *Gateway, l sweepable, s launcher.Summary) error {
	return l.Heartbeat(ctx, s.ID)
}

// settleBooks takes out of the tenants' books what counts no more: reservations of gateways that are
// gone, and the time of sandboxes that have ended. A book without anything is removed.
func (g *Gateway) settleBooks(ctx context.Context) {
	if g.Ledger == nil {
		return
	}
	names, err := g.Ledger.Names(ctx)
	for _, name := range names {
		tenant, ok := strings.CutPrefix(name, bookPrefix)
		if !ok || CheckTenant(tenant) != nil || ctx.Err() != nil {
			continue
		}
		written := make(chan error, 1)
		go func() { written <- g.books.of(g, tenant).write((*page).closeEnded) }()
		select {
		case e := <-written:
			if e != nil {
				err = errors.Join(err, fmt.Errorf("of %s: %w", tenant, e))
			}
		case <-ctx.Done(): // it is written all the same
		}
	}
	if err != nil && ctx.Err() == nil {
		g.Log.WarnContext(ctx, "cannot settle what tenants have reserved", "error", err)
	}
}
