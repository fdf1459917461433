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
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// servings are the times that a far end serves with one connection to the sandbox.
type servings struct {
	*farEnd
	sandbox *launcher.Sandbox
	all     []*serving // which have begun; the last one is in charge
	next    *serving   // which is about to begin; nil if none is
	begun   chan error // has a value when next has begun, or why it has not
}

// serving is one time that a far end serves. It goes on while another one of the same far end has
// replaced it, until its connections are closed.
type serving struct {
	server *egress.Server // nil until it has begun
	ctx    context.Context
	end    context.CancelFunc
	policy *egressPolicy // which it has
	open   atomic.Int64

	mu    sync.Mutex
	state *farend.State // nil until it is told, which may be after it has begun
}

// serve serves with one connection to the sandbox, and follows what it is to be like. The agent may be
// slow, or hostile: nothing that it does not answer holds up another policy.
func (f *farEnd) serve(s *launcher.Sandbox) error {
	all := &servings{farEnd: f, sandbox: s, begun: make(chan error, 1)}
	defer all.close()
	for {
		next := f.want()
		all.follow(next.policy)
		if len(all.all) > 0 {
			f.settle()
		}
		if all.next == nil && (len(all.all) == 0 || f.mustReplace(all.last(), next)) {
			all.begin(next)
		}
		all.tidy()
		if all.isDone(next) {
			return nil
		}
		if over, err := all.wait(next); over {
			return err
		}
	}
}

// follow changes the policy of all, and ends those that began with other credentials, or had to come up
// to another level.
func (s *servings) follow(policy *egressPolicy) {
	for _, v := range s.all {
		if !v.suits(policy) {
			v.end()
		} else if v.policy != policy {
			v.policy = policy
			v.server.SetPolicy(s.policyOf(policy))
		}
	}
	s.all = closed(s.all, func(v *serving) bool { return !v.suits(policy) })
	if s.next != nil && !s.next.suits(policy) {
		s.next.end()
	}
}

// suits reports whether a serving can get a policy.
func (v *serving) suits(policy *egressPolicy) bool {
	return v.policy.credentials == policy.credentials && v.policy.require == policy.require
}

// last returns the one in charge; nil if there is none.
func (s *servings) last() *serving {
	if len(s.all) == 0 {
		return nil
	}
	return s.all[len(s.all)-1]
}

// tidy closes those that have been replaced and have nothing to carry, or all that have been if these are
// many.
func (s *servings) tidy() {
	last := s.last()
	s.all = closed(s.all, func(v *serving) bool {
		return v != last && (v.open.Load() == 0 || len(s.all) > egressServings)
	})
}

// isDone reports whether another gateway lets the sandbox out, as it should, and what this one has begun
// is over.
func (s *servings) isDone(next wanting) bool {
	return !next.keeps && s.next == nil && len(s.all) == 1 && s.all[0].isReplaced() && s.all[0].open.Load() == 0
}

var errEgressEnded = errors.New("serving its way out ended")

// wait waits for a change. It reports whether serving is over, and why.
func (s *servings) wait(next wanting) (over bool, err error) {
	var done <-chan struct{}
	var mayReplace <-chan time.Time
	if last := s.last(); last != nil {
		done, mayReplace = last.server.Done(), s.mayReplace(last, next)
	}
	select {
	case <-s.ctx.Done():
		return true, nil
	case <-done:
		if err = s.last().server.Close(); err == nil {
			err = errEgressEnded
		}
		return true, err
	case err = <-s.begun:
		v := s.next
		if s.next = nil; v.ctx.Err() != nil {
			v.close() // it was not to begin any more
			return false, nil
		}
		if err != nil {
			v.end()
			return true, err
		}
		s.all = append(s.all, v)
	case <-s.changed:
	case <-mayReplace:
	}
	return false, nil
}

// close closes all.
func (s *servings) close() {
	if s.next != nil {
		s.next.end()
		<-s.begun
		s.all = append(s.all, s.next)
	}
	for _, v := range s.all {
		v.end()
	}
	closed(s.all, func(*serving) bool { return true })
}

// closed closes some of the servings, and returns the others.
func closed(all []*serving, which func(*serving) bool) []*serving {
	return slices.DeleteFunc(all, func(v *serving) bool {
		if !which(v) {
			return false
		}
		v.close()
		return true
	})
}

func (v *serving) close() {
	v.end()
	if v.server != nil {
		_ = v.server.Close()
	}
}

// isReplaced reports whether another far end serves.
func (v *serving) isReplaced() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state != nil && !v.state.Serving && v.state.Err == nil
}

// replacedBy returns the generation of the far end that serves instead.
func (v *serving) replacedBy() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state == nil {
		return 0
	}
	return v.state.Generation
}

// isStale reports whether a far end serves that knows less of who is there than this gateway does, which
// is to keep the sandbox.
func (f *farEnd) isStale(v *serving, next wanting) bool {
	return next.keeps && v.isReplaced() && v.replacedBy()>>egressTurns < next.epoch
}

// mustReplace reports whether to serve anew because of that. It is not often: the agent may lie.
func (f *farEnd) mustReplace(v *serving, next wanting) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.isStale(v, next) && time.Since(f.began) >= egressLastPause
}

// mayReplace returns a channel that has a value when that may be so without any other change.
func (f *farEnd) mayReplace(v *serving, next wanting) <-chan time.Time {
	if !f.isStale(v, next) {
		return nil
	}
	return time.After(egressLastPause)
}

// begin serves from soon on.
func (s *servings) begin(next wanting) {
	v := &serving{policy: next.policy}
	v.ctx, v.end = context.WithCancel(s.ctx)
	s.mu.Lock()
	s.began = time.Now()
	s.mu.Unlock()
	generation := uint64(1) // the least of those that others take over from: they find their files and variables
	if s.turn++; next.keeps {
		generation = next.epoch<<egressTurns | s.turn&(1<<egressTurns-1)
	}
	s.next = v
	go func() { s.begun <- s.serveNext(v, next.policy, generation) }()
}

// serveNext makes a serving begin. A sandbox that is kept from other ways by less than its tenant's must
// be is refused.
func (s *servings) serveNext(v *serving, policy *egressPolicy, generation uint64) error {
	if policy.require != "" {
		if err := s.sandbox.RequireEgress(v.ctx, policy.require); err != nil {
			return err
		}
	}
	seed, err := s.w.g.egressSeed(s.Summary)
	if err != nil {
		return err
	}
	server, err := egress.Serve(v.ctx, s.sandbox.Client, egress.Options{
		Secrets: policy.secrets, Seed: seed, Roots: s.w.g.EgressRoots,
		Policy: s.policyOf(policy), Generation: generation, Private: s.w.g.EgressPrivate,
		Log: s.tried, MayTry: s.tries.MayTry,
		Admit: func(conn net.Conn) (net.Conn, error) {
			return s.admit(v, conn)
		},
		Changed: func(state farend.State) {
			v.mu.Lock()
			v.state = &state
			v.mu.Unlock()
			s.stir()
		},
	})
	if err != nil {
		return err
	}
	v.server = server
	if policy.require != "" {
		s.w.all.Go(func() { s.holdTo(v, policy.require) })
	}
	return nil
}

// holdTo ends a serving whose sandbox is kept from other ways by less than it must be: networks change.
// An agent that was made with that requirement ends by itself, others say it when they are asked.
func (s *servings) holdTo(v *serving, level wayout.Level) {
	for delay.For(v.ctx, s.w.levelInterval) == nil {
		ctx, cancel := context.WithTimeout(v.ctx, lookupTime)
		err := s.sandbox.RequireEgress(ctx, level)
		cancel()
		if errors.Is(err, launcher.ErrEgress) {
			s.w.g.Log.WarnContext(v.ctx, "a sandbox is not let out any more", "sandbox", s.ID, "error", err)
			v.end()
			return
		}
	}
}
