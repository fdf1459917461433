// Package peers divides sandboxes among the gateways over them: each gateway knows which others
// there are, and which of them keeps a sandbox.
//
// The gateways write into one text of a ledger that they are there, each every beat, and take out
// those that have been silent. So all agree on who is there, and on a number that rises with each
// change of that: the epoch. Who keeps a sandbox follows from the gateways of an epoch alone. A
// gateway that was stopped for a while goes on by an older epoch, so what keepers do must be safe
// when two do it, and is the newer one's where it cannot be.
package peers

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/podagent/podagent/internal/delay"
)

// The times of peers, each with its reason.
const (
	// beat is how often a gateway writes that it is there, and learns who else is: after so long, and
	// one write, others keep what a gateway kept that has left.
	beat = 2 * time.Second
	// silence is after how long without a word a gateway is taken out. With the beat and what a keeper
	// does first it is less than the 10 s for which an agent holds connections.
	silence = 6 * time.Second
	// gap is after how long without having read the text a gateway judges nobody by what it saw before:
	// if the API server was away, all were silent.
	gap = 3 * beat
	// textTime bounds how long the text stays when nobody writes it any more.
	textTime = time.Minute
	// leaveTime bounds what a gateway that ends does for the others.
	leaveTime = 5 * time.Second
	// failureInterval is how often the log says that the text cannot be written.
	failureInterval = time.Minute
)

// Ledger is where the text is: see gateway.Ledger.
type Ledger interface {
	Amend(ctx context.Context, name string, change func(ctx context.Context, old []byte) ([]byte, time.Time, error)) error
}

// Peers is one of several gateways.
type Peers struct {
	// Ledger is the same for all of them. Without one this gateway is alone.
	Ledger Ledger
	// Text is the name of the text.
	Text string
	// Changed is called with what this gateway sees, at first and with each change, by Run.
	Changed func(View)
	// Log gets why the text cannot be written; nil discards it.
	Log *slog.Logger

	self  string
	known map[string]sighting
	read  time.Time // when the text was last read
	view  View
	said  time.Time // when the log last said that it cannot be
}

// sighting is what was seen of a gateway.
type sighting struct {
	word  uint64
	since time.Time // when this word was first seen
}

// View is what a gateway sees.
type View struct {
	Self     string
	Epoch    uint64   // rises with each change of Gateways, also if the text is lost
	Gateways []string // sorted; Self is one of them
}

// Keeper returns the gateway that keeps the sandbox of an id. When gateways come and go, no more
// sandboxes change their keeper than must (rendezvous hashing).
func (v View) Keeper(id string) (keeper string) {
	var most [sha256.Size]byte
	for _, g := range v.Gateways {
		if weight := sha256.Sum256([]byte(g + "\x00" + id)); bytes.Compare(weight[:], most[:]) > 0 {
			keeper, most = g, weight
		}
	}
	return keeper
}

// Keeps reports whether this gateway keeps the sandbox of an id.
func (v View) Keeps(id string) bool { return v.Self != "" && v.Keeper(id) == v.Self }

// page is the text, decoded.
type page struct {
	Epoch    uint64            `json:"epoch"`
	Gateways map[string]uint64 `json:"gateways"` // by their names: how often each has written
}

// Run takes part until ctx ends. Then the others keep what this gateway kept.
func (p *Peers) Run(ctx context.Context) {
	p.self = name()
	if p.Ledger == nil {
		p.see(page{Epoch: epochAfter(0, time.Now()), Gateways: map[string]uint64{p.self: 1}})
		<-ctx.Done()
		return
	}
	for ctx.Err() == nil {
		if err := p.say(ctx); err != nil && ctx.Err() == nil {
			p.tell(err)
		}
		delay.For(ctx, beat)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := p.amend(ctx, p.leave); err != nil {
		p.tell(err)
	}
}

// name makes up a name for this gateway, which begins with its host: in a cluster, its pod.
func name() string {
	host, _ := os.Hostname()
	return host + "-" + strings.ToLower(rand.Text()[:10])
}

// say writes that this gateway is there.
func (p *Peers) say(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gap)
	defer cancel()
	if time.Since(p.read) > gap {
		p.known = nil
	}
	var written page
	if err := p.amend(ctx, func(now page) page {
		written = p.add(now, time.Now())
		return written
	}); err != nil {
		return err
	}
	p.note(written, time.Now())
	p.see(written)
	return nil
}

// amend changes the text. One that cannot be read is begun anew.
func (p *Peers) amend(ctx context.Context, change func(page) page) error {
	return p.Ledger.Amend(ctx, p.Text, func(_ context.Context, old []byte) ([]byte, time.Time, error) {
		var now page
		if len(old) > 0 && json.Unmarshal(old, &now) != nil {
			now = page{}
		}
		if now = change(now); len(now.Gateways) == 0 {
			return nil, time.Time{}, nil
		}
		text, err := json.Marshal(now)
		return text, time.Now().Add(textTime), err
	})
}

// add adds this gateway's word to a page, and takes out the gateways that are silent.
func (p *Peers) add(now page, at time.Time) page {
	next := page{now.Epoch, map[string]uint64{p.self: now.Gateways[p.self] + 1}}
	for name, word := range now.Gateways {
		seen, known := p.known[name]
		if silent := known && seen.word == word && at.Sub(seen.since) >= silence; name != p.self && !silent {
			next.Gateways[name] = word
		}
	}
	if !slices.Equal(names(next), names(now)) {
		next.Epoch = epochAfter(now.Epoch, at)
	}
	return next
}

// leave takes this gateway out of a page.
func (p *Peers) leave(now page) page {
	if _, there := now.Gateways[p.self]; there {
		delete(now.Gateways, p.self)
		now.Epoch = epochAfter(now.Epoch, time.Now())
	}
	return now
}

// epochAfter returns an epoch that is higher than another, and, unless clocks are wrong, than all
// that there were.
func epochAfter(epoch uint64, at time.Time) uint64 { return max(epoch+1, uint64(max(at.Unix(), 0))) }

func names(of page) []string { return slices.Sorted(maps.Keys(of.Gateways)) }

// note remembers what was read.
func (p *Peers) note(now page, at time.Time) {
	known := map[string]sighting{}
	for name, word := range now.Gateways {
		known[name] = sighting{word, at}
		if seen, ok := p.known[name]; ok && seen.word == word {
			known[name] = seen
		}
	}
	p.known, p.read = known, at
}

// see tells of another view.
func (p *Peers) see(now page) {
	view := View{p.self, now.Epoch, names(now)}
	if view.Epoch == p.view.Epoch && slices.Equal(view.Gateways, p.view.Gateways) {
		return
	}
	p.view = view
	p.Changed(view)
}

func (p *Peers) tell(err error) {
	if p.Log != nil && time.Since(p.said) >= failureInterval && !errors.Is(err, context.Canceled) {
		p.said = time.Now()
		p.Log.Warn("cannot agree with other gateways on who keeps which sandbox", "error", err)
	}
}
