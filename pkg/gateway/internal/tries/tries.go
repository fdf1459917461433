// Package tries tells what a sandbox tries to reach: each try as long as these are not many, and of more
// their number, so that no loop of tries hides another one or fills a log.
package tries

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/podagent/podagent/pkg/egress"
)

// Try is a try, or several of one verdict.
type Try struct {
	egress.Decision
	// Count is how many tries these are. If there are several, Time is that of the first, and of the
	// rest of the Decision there are the Verdict and the Protocol.
	Count int
}

// Tries are those of one sandbox.
type Tries struct {
	// Say tells of a try, or fails. It is called for one try at a time, and must not take long.
	Say func(Try) error
	// Failing is called when saying begins to fail.
	Failing func(error)

	mu      sync.Mutex
	rooms   map[egress.Verdict]*room
	more    map[Try]Try // what was not said, by verdict and protocol
	failing bool
}

// room is the room for tries of one verdict: those of another one cannot take it up.
type room struct {
	*rate.Limiter
	since  time.Time
	firsts map[first]bool // which were said since then
}

// first is what there is room for once in a while, whatever else is tried.
type first struct{ host, secret string }

// Tell says a try, or keeps it to be counted later.
func (t *Tries) Tell(d egress.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	try := Try{d, 1}
	if !t.hasRoom(d) || t.say(try) != nil {
		t.add(try)
	}
}

// hasRoom reports whether a try is to be said by itself. Its caller has the lock.
func (t *Tries) hasRoom(d egress.Decision) bool {
	r := t.rooms[d.Verdict]
	if r == nil {
		if t.rooms == nil {
			t.rooms = map[egress.Verdict]*room{}
		}
		r = &room{Limiter: rate.NewLimiter(perSecond, burst)}
		t.rooms[d.Verdict] = r
	}
	if time.Since(r.since) >= interval {
		r.since, r.firsts = time.Now(), map[first]bool{}
	}
	is := first{d.Host, d.Secret}
	isFirst := !r.firsts[is] && len(r.firsts) < mostFirsts
	if isFirst {
		r.firsts[is] = true
	}
	return r.Allow() || isFirst
}

// say says a try, and notes whether that fails. Its caller has the lock.
func (t *Tries) say(try Try) error {
	err := t.Say(try)
	if failing := err != nil; failing != t.failing {
		if t.failing = failing; failing {
			t.Failing(err)
		}
	}
	return err
}

// add keeps a try for later. Its caller has the lock.
func (t *Tries) add(try Try) {
	kind := Try{Decision: egress.Decision{Verdict: try.Verdict, Protocol: try.Protocol}}
	sum, there := t.more[kind]
	if !there {
		sum = kind
		sum.Time = try.Time
	}
	sum.Count += try.Count
	if t.more == nil {
		t.more = map[Try]Try{}
	}
	t.more[kind] = sum
}

// Flush says how many more there were, of the kinds whose first one is some time ago, or of all.
func (t *Tries) Flush(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for kind, sum := range t.more {
		if (all || t.failing || time.Since(sum.Time) >= interval) && t.say(sum) == nil {
			delete(t.more, kind)
		}
	}
}

// errUnrecorded is the reason that a sandbox is told.
var errUnrecorded = errors.New("the gateway cannot record what the sandbox tries to reach, and so lets it reach nothing")

// MayTry returns an error while tries cannot be said.
func (t *Tries) MayTry() error {
	t.mu.Lock()
	failing := t.failing
	t.mu.Unlock()
	if !failing {
		return nil
	}
	t.Flush(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failing {
		return errUnrecorded
	}
	return nil
}
