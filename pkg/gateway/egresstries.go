package gateway

import (
	"context"
	"errors"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway/internal/tries"
)

// EgressTry is a try of a sandbox to reach a host, or several of one verdict.
type EgressTry struct {
	Tenant  string
	Sandbox string // the tenant's name of it
	egress.Decision
	// Count is how many tries these are. If there are several, Time is that of the first, and of the
	// rest of the Decision there are the Verdict and the Protocol.
	Count int
}

// EgressObserver is an observer that is also told what sandboxes try to reach. Of many tries of one verdict
// in a short time it gets the first, the first to each host, and how many more there were.
type EgressObserver interface {
	Observer
	// EgressTried is called for each, by several goroutines at once. After an error the sandbox can try
	// nothing more until it can be told.
	EgressTried(ctx context.Context, t EgressTry) error
}

// EgressFollower is an observer that counts what the ways out of sandboxes are used for.
type EgressFollower interface {
	Observer
	// EgressDecided is called for each try.
	EgressDecided(egress.Decision)
	// EgressOpened is called when a connection of a sandbox is let in, and EgressClosed when it is
	// closed, with the bytes from the sandbox and to it.
	EgressOpened()
	EgressClosed(in, out int64)
	// FarEnds is called when there are so many more sandboxes that this gateway lets out, or less.
	FarEnds(more int)
}

// tell tells those of the observers that are of a kind.
func tell[O any](all []Observer, do func(O)) {
	for _, o := range all {
		if o, ok := o.(O); ok {
			do(o)
		}
	}
}

// triesOf returns what tells observers of a sandbox's tries.
func (g *Gateway) triesOf(tenant, name string) *tries.Tries {
	return &tries.Tries{
		Say: func(t tries.Try) (err error) {
			ctx, cancel := context.WithTimeout(context.Background(), egressTellTime)
			defer cancel()
			try := EgressTry{tenant, name, t.Decision, t.Count}
			tell(g.Observers, func(o EgressObserver) { err = errors.Join(err, o.EgressTried(ctx, try)) })
			return err
		},
		Failing: func(err error) {
			g.Log.Error("what a sandbox tries to reach cannot be recorded: it reaches nothing until it can", "tenant", tenant, "sandbox", name, "error", err)
		},
	}
}

// tried tells of a try.
func (f *farEnd) tried(d egress.Decision) {
	tell(f.w.g.Observers, func(o EgressFollower) { o.EgressDecided(d) })
	d.Host, d.Reason = redactText(d.Host, nameTextLimit), redactText(d.Reason, 2*nameTextLimit)
	f.w.g.recently.decided(f.tenant, f.name, d)
	f.tries.Tell(d)
}
