package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway/internal/tries"
	"github.com/podagent/podagent/pkg/launcher"
)

// farEnd is the far end of one sandbox's way out, for as long as this gateway has it.
type farEnd struct {
	tenantSandbox
	w       *waysOut
	of      *tenantEgress
	tries   *tries.Tries
	ctx     context.Context
	end     context.CancelFunc
	settled chan struct{} // closed when it serves, or stands by, or could not
	settle  func()
	changed chan struct{} // has a value if there is something to look at

	turn uint64 // of its generations; of run alone

	mu     sync.Mutex
	wanted wanting
	began  time.Time // when it last began to serve
}

// wanting is what a far end is to be like.
type wanting struct {
	policy *egressPolicy
	keeps  bool
	epoch  uint64
}

func newFarEnd(w *waysOut, s tenantSandbox, policy *egressPolicy, keeps bool, epoch uint64) *farEnd {
	f := &farEnd{
		tenantSandbox: s, w: w, of: w.tenant(s.tenant), tries: w.g.triesOf(s.tenant, s.name),
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
	f.tries.Flush(false)
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
		f.tries.Flush(true)
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

// isOf reports whether it is the far end of this sandbox, not of another one that had its name.
func (f *farEnd) isOf(s tenantSandbox) bool { return sameSandbox(f.Summary, s.Summary) }

// isThere reports whether the sandbox may run, as far as can be told: only that is worth another try.
func (f *farEnd) isThere() bool {
	ctx, cancel := context.WithTimeout(f.ctx, lookupTime)
	defer cancel()
	s, err := f.w.g.Launcher.Find(ctx, f.ID)
	if err != nil {
		return !errors.Is(err, launcher.ErrNotFound)
	}
	return mayRun(s) && sameSandbox(s, f.Summary)
}

// hold serves the sandbox. It returns nil if it need not any more.
func (f *farEnd) hold() error {
	held := f.w.g.held
	open, err := held.get(f.ctx, f.ID, false)
	if err != nil {
		return err
	}
	defer held.release(f.ID, open)
	if err = f.isSame(); err == nil {
		err = f.serve(open.sandbox)
	}
	if err != nil && isSandboxGone(err) {
		held.drop(f.ID, open)
	}
	return err
}

// isSame refuses a successor of the sandbox, which has other rules and another CA. What is open was
// opened before, so that it is the sandbox, or an earlier one that is gone.
func (f *farEnd) isSame() error {
	ctx, cancel := context.WithTimeout(f.ctx, lookupTime)
	defer cancel()
	at := time.Now()
	s, err := f.w.g.Launcher.Find(ctx, f.ID)
	if err != nil || s.Labels[labelIdentity] == f.Labels[labelIdentity] {
		return err
	}
	f.w.succeeded(s, at)
	return fmt.Errorf("%w: there is another of its name", launcher.ErrGone)
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

// admit lets a connection begin that is within the bounds.
func (f *farEnd) admit(v *serving, conn net.Conn) (net.Conn, error) {
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
