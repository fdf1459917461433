package gateway

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/launcher"
)

// farEnd is the far end of one sandbox's way out, for as long as this gateway has it.
type farEnd struct {
	wayOut
	w       *waysOut
	of      *tenantEgress
	tries   *tries
	ctx     context.Context
	end     context.CancelFunc
	settled chan struct{} // closed when it serves, or stands by, or could not
	settle  func()
	changed chan struct{} // has a value if there is something to look at

	mu     sync.Mutex
	wanted wanting

	// Of run alone.
	turn     uint64 // of its generations
	replaced time.Time
}

// wanting is what a far end is to be like.
type wanting struct {
	policy *egressPolicy
	keeps  bool
	epoch  uint64
}

// serving is one time that a far end serves. It goes on while another one of the same far end has
// replaced it, until its connections are closed.
type serving struct {
	*egress.Server
	generation uint64
	open       atomic.Int64

	mu    sync.Mutex
	state farend.State
}

func newFarEnd(w *waysOut, s wayOut, policy *egressPolicy, keeps bool, epoch uint64) *farEnd {
	f := &farEnd{
		wayOut: s, w: w, of: w.tenant(s.tenant), tries: newTries(w.g, s.tenant, s.name),
		settled: make(chan struct{}), changed: make(chan struct{}, 1), wanted: wanting{policy, keeps, epoch},
	}
	f.settle = sync.OnceFunc(func() { close(f.settled) })
	f.ctx, f.end = context.WithCancel(w.life)
	return f
}

// update says what the far end is to be like.
func (f *farEnd) update(policy *egressPolicy, keeps bool, epoch uint64) {
	f.mu.Lock()
	next := wanting{policy, keeps, epoch}
	differs := f.wanted != next
	f.wanted = next
	f.mu.Unlock()
	if differs {
		f.stir()
	}
	f.tries.flush(false)
}

func (f *farEnd) want() wanting {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wanted
}

func (f *farEnd) stir() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run serves until the far end is ended, or not needed any more.
func (f *farEnd) run() {
	log := f.w.g.Log
	tell(f.w.g.Observers, func(o EgressFollower) { o.FarEnds(1) })
	lost := false
	defer func() {
		f.end()
		f.settle()
		f.tries.flush(true)
		tell(f.w.g.Observers, func(o EgressFollower) { o.FarEnds(-1) })
		f.w.gone(f, lost)
	}()
	for pause, began := egressPause, time.Now(); ; pause, began = min(2*pause, egressLastPause), time.Now() {
		err := f.hold()
		f.settle()
		if lost = err != nil && isSandboxGone(err); lost || err == nil || f.ctx.Err() != nil {
			return
		}
		log.WarnContext(f.ctx, "a sandbox is not let out", "sandbox", f.ID, "error", err)
		if time.Since(began) > egressLastPause {
			pause = egressPause
		}
		if delay.For(f.ctx, pause) != nil {
			return
		}
		if lost = !f.isThere(); lost {
			return
		}
	}
}

// isThere reports whether the sandbox runs, as far as can be told: only that is worth another try.
func (f *farEnd) isThere() bool {
	ctx, cancel := context.WithTimeout(f.ctx, lookupTime)
	defer cancel()
	s, err := f.w.g.Launcher.Find(ctx, f.ID)
	if err != nil {
		return !errors.Is(err, launcher.ErrNotFound)
	}
	return s.State == launcher.Running && s.Labels[labelIdentity] == f.Labels[labelIdentity]
}

// hold serves the sandbox. It returns nil if it need not any more.
func (f *farEnd) hold() error {
	held := f.w.g.held
	open, err := held.get(f.ctx, f.ID, false)
	if err != nil {
		return err
	}
	defer held.release(f.ID, open)
	if err = f.serve(open.sandbox); err != nil && isSandboxGone(err) {
		held.drop(f.ID, open)
	}
	return err
}

// serve serves with one connection to the sandbox, and follows what it is to be like.
func (f *farEnd) serve(s *launcher.Sandbox) error {
	var all []*serving // the last one is in charge
	defer func() {
		for _, v := range all {
			_ = v.Close()
		}
	}()
	for did := (wanting{}); ; {
		next := f.want()
		if did.policy == nil || did.policy.require != next.policy.require {
			if err := f.checkLevel(s, next.policy); err != nil {
				return err
			}
		}
		switch {
		case len(all) == 0 || f.mustReplace(all[len(all)-1], next):
			v, err := f.begin(s, next)
			if err != nil {
				return err
			}
			all = append(all, v)
		case did.policy != next.policy && did.policy.credentials != next.policy.credentials:
			v, err := f.begin(s, next)
			if err != nil {
				return err
			}
			all = closed(append(all, v), func(o *serving) bool { return o != v }) // which have the old ones
		case did.policy != next.policy:
			for _, v := range all {
				v.SetPolicy(f.policyOf(next.policy))
			}
		}
		did = next
		f.settle()
		last := all[len(all)-1]
		all = closed(all, func(v *serving) bool { return v != last && (v.open.Load() == 0 || len(all) > egressServings) })
		if f.isDone(all, next) {
			return nil
		}
		select {
		case <-f.ctx.Done():
			return nil
		case <-last.Done():
			if err := last.Close(); err != nil {
				return err
			}
			return errEgressEnded
		case <-f.changed:
		case <-f.mayReplace(last, next):
		}
	}
}

var errEgressEnded = errors.New("serving its way out ended")

// closed closes some of the servings, and returns the others.
func closed(all []*serving, which func(*serving) bool) []*serving {
	return slices.DeleteFunc(all, func(v *serving) bool {
		if !which(v) {
			return false
		}
		_ = v.Close()
		return true
	})
}

// isDone reports whether another gateway lets the sandbox out, as it should, and what this one has begun
// is over.
func (f *farEnd) isDone(all []*serving, next wanting) bool {
	return !next.keeps && len(all) == 1 && all[0].isReplaced() && all[0].open.Load() == 0
}

// isReplaced reports whether another far end serves.
func (v *serving) isReplaced() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return !v.state.Serving && v.state.Err == nil
}

// replacedBy returns the generation of the far end that serves instead.
func (v *serving) replacedBy() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.Generation
}

// isStale reports whether a far end serves that knows less of who is there than this gateway does, which
// is to keep the sandbox.
func (f *farEnd) isStale(v *serving, next wanting) bool {
	return next.keeps && v.isReplaced() && v.replacedBy()>>egressTurns < next.epoch
}

// mustReplace reports whether to serve anew because of that. It is not often: the agent may lie.
func (f *farEnd) mustReplace(v *serving, next wanting) bool {
	return f.isStale(v, next) && time.Since(f.replaced) >= egressLastPause
}

// mayReplace returns a channel that has a value when that may be so without any other change.
func (f *farEnd) mayReplace(v *serving, next wanting) <-chan time.Time {
	if !f.isStale(v, next) {
		return nil
	}
	return time.After(egressLastPause)
}

// checkLevel refuses a sandbox that is kept from other ways by less than its tenant's must be.
func (f *farEnd) checkLevel(s *launcher.Sandbox, policy *egressPolicy) error {
	if policy.require == "" {
		return nil
	}
	return s.RequireEgress(f.ctx, policy.require)
}

// begin serves from now on.
func (f *farEnd) begin(s *launcher.Sandbox, next wanting) (*serving, error) {
	v := &serving{}
	if f.replaced, f.turn = time.Now(), f.turn+1; next.keeps {
		v.generation = next.epoch<<egressTurns | f.turn&(1<<egressTurns-1)
	}
	seed, err := f.w.g.egressSeed(f.Summary)
	if err != nil {
		return nil, err
	}
	opts := egress.Options{
		Secrets: next.policy.secrets, Seed: seed, Roots: f.w.g.EgressRoots,
		Policy: f.policyOf(next.policy), Generation: v.generation, Private: f.w.g.EgressPrivate,
		Log: f.tries.tell,
		Admit: func(conn net.Conn) (net.Conn, error) {
			return f.admit(v, conn)
		},
		Changed: func(state farend.State) {
			v.mu.Lock()
			v.state = state
			v.mu.Unlock()
			f.stir()
		},
	}
	v.Server, err = egress.Serve(f.ctx, s.Client, opts)
	return v, err
}

// policyOf returns what the sandbox may reach: what its tenant's may, and its create asked for.
func (f *farEnd) policyOf(policy *egressPolicy) egress.Policy {
	only, err := narrowedTo(f.Summary)
	if err != nil {
		f.w.g.Log.ErrorContext(f.ctx, "a sandbox reaches nothing", "sandbox", f.ID, "error", err)
		only = []egress.Rule{}
	}
	return egress.Policy{Allow: policy.allow, Only: only}
}

// admit lets a connection begin that is recorded and within the bounds.
func (f *farEnd) admit(v *serving, conn net.Conn) (net.Conn, error) {
	if err := f.tries.mayTry(); err != nil {
		return nil, err
	}
	observers := f.w.g.Observers
	admitted, err := f.w.admit(f.of, f.want().policy.connections, conn, func(in, out int64) {
		tell(observers, func(o EgressFollower) { o.EgressClosed(in, out) })
		if v.open.Add(-1) == 0 {
			f.stir()
		}
	})
	if err == nil {
		v.open.Add(1)
		tell(observers, func(o EgressFollower) { o.EgressOpened() })
	}
	return admitted, err
}
