package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/podagent/podagent/pkg/egress"
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

// tries tells observers what a sandbox tries, one by one as long as these are not many.
type tries struct {
	g            *Gateway
	tenant, name string

	mu      sync.Mutex
	rooms   map[egress.Verdict]*triesRoom
	more    map[EgressTry]EgressTry // what was not told, by verdict and protocol
	failing bool
}

// triesRoom is the room for tries of one verdict: those of another one cannot take it up.
type triesRoom struct {
	*rate.Limiter
	since  time.Time
	firsts map[firstTry]bool // which were told since then
}

// firstTry is what there is room for once in a while, whatever else is tried.
type firstTry struct{ host, secret string }

func newTries(g *Gateway, tenant, name string) *tries {
	return &tries{g: g, tenant: tenant, name: name, rooms: map[egress.Verdict]*triesRoom{}, more: map[EgressTry]EgressTry{}}
}

// hasRoom reports whether a try is to be told by itself. Its caller has the lock.
func (t *tries) hasRoom(d egress.Decision) bool {
	room := t.rooms[d.Verdict]
	if room == nil {
		room = &triesRoom{Limiter: rate.NewLimiter(egressTryRate, egressTryBurst)}
		t.rooms[d.Verdict] = room
	}
	if time.Since(room.since) >= egressTryInterval {
		room.since, room.firsts = time.Now(), map[firstTry]bool{}
	}
	is := firstTry{d.Host, d.Secret}
	first := !room.firsts[is] && len(room.firsts) < egressTryFirsts
	if first {
		room.firsts[is] = true
	}
	return room.Allow() || first
}

// tell tells of a try.
func (t *tries) tell(d egress.Decision) {
	tell(t.g.Observers, func(o EgressFollower) { o.EgressDecided(d) })
	d.Host, d.Reason = redactText(d.Host, nameTextLimit), redactText(d.Reason, 2*nameTextLimit)
	t.mu.Lock()
	defer t.mu.Unlock()
	try := EgressTry{t.tenant, t.name, d, 1}
	if !t.hasRoom(d) || t.say(try) != nil {
		t.add(try)
	}
}

// say tells those who must know. Its caller has the lock.
func (t *tries) say(try EgressTry) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), egressTellTime)
	defer cancel()
	tell(t.g.Observers, func(o EgressObserver) { err = errors.Join(err, o.EgressTried(ctx, try)) })
	if failing := err != nil; failing != t.failing {
		if t.failing = failing; failing {
			t.g.Log.Error("what a sandbox tries to reach cannot be recorded: it reaches nothing until it can", "tenant", t.tenant, "sandbox", t.name, "error", err)
		}
	}
	return err
}

// add keeps a try for later. Its caller has the lock.
func (t *tries) add(try EgressTry) {
	kind := EgressTry{Decision: egress.Decision{Verdict: try.Verdict, Protocol: try.Protocol}}
	sum, there := t.more[kind]
	if !there {
		sum = EgressTry{t.tenant, t.name, kind.Decision, 0}
		sum.Time = try.Time
	}
	sum.Count += try.Count
	t.more[kind] = sum
}

// flush tells how many more there were, of the kinds whose first one is some time ago, or of all.
func (t *tries) flush(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for kind, sum := range t.more {
		if (all || t.failing || time.Since(sum.Time) >= egressTryInterval) && t.say(sum) == nil {
			delete(t.more, kind)
		}
	}
}

var errEgressUnrecorded = errors.New("the gateway cannot record what the sandbox tries to reach, and so lets it reach nothing")

// mayTry returns an error while tries cannot be told.
func (t *tries) mayTry() error {
	t.mu.Lock()
	failing := t.failing
	t.mu.Unlock()
	if !failing {
		return nil
	}
	t.flush(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failing {
		return errEgressUnrecorded
	}
	return nil
}
