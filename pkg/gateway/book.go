package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// Ledger keeps a small text for each name, which several gateways change at once without losing a
// change: see package ledger of the launcher.
type Ledger interface {
	// Amend changes a text to what change returns; empty is none. change may be called several
	// times, and must look up again each time what it looks up. The time is until when the text
	// means anything.
	Amend(ctx context.Context, name string, change func(ctx context.Context, old []byte) ([]byte, time.Time, error)) error
	// Names returns the names of the texts that are there.
	Names(ctx context.Context) ([]string, error)
}

// A tenant's book says what its gateways have reserved. It is a text in the ledger. Whoever makes a
// sandbox, on whichever gateway, reads the book, then lists the sandboxes, and writes its
// reservation only if nobody has written since it read. A sandbox is in the list before its
// reservation is taken out. So each sandbox, and each that is about to be one, is in what was read
// or in what was listed after that, and counts once, by its id.
//
// The book is not a cache of the list: what the list has, it does not repeat.

// page is what a book says, decoded.
type page struct {
	Reserved map[string]reservation `json:"reserved,omitempty"` // by a random text
	Keys     map[string]*account    `json:"keys,omitempty"`     // of the keys with a budget

	now  time.Time
	list func() (map[string]*launcher.Summary, error) // the tenant's sandboxes by id, as they are after the book was read
}

// reservation holds what a sandbox needs that is being made or resumed.
type reservation struct {
	ID      string  `json:"id"`
	Until   int64   `json:"until"` // Unix time: the launch has ended by then
	Amounts amounts `json:"amounts"`
	Key     string  `json:"key,omitempty"` // whose budget Span counts for
	Span    *span   `json:"span,omitempty"`
}

// The bounds of a book, in bytes. It has to fit into a ledger's text, which has 192 KiB: some
// hundreds of launches at once, and of living sandboxes of keys with a budget. The others are more
// than each of these has beside its names.
const (
	maxBook         = 180 << 10
	reservationSize = 240
	spanSize        = 60
	accountSize     = 110
)

var errBookFull = errors.New("too many sandboxes of the tenant are being made at once, or are counted for budgets of its keys")

// isFull reports whether the book has no room for another reservation.
func (p *page) isFull() bool {
	size := 0
	for _, r := range p.Reserved {
		size += reservationSize + len(r.ID) + len(r.Key)
	}
	for key, a := range p.Keys {
		size += accountSize + len(key)
		for id := range a.Open {
			size += spanSize + len(id)
		}
	}
	return size > maxBook
}

func (p *page) parse(text []byte, now time.Time) error {
	p.now = now
	if len(text) > 0 {
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields() // which a newer gateway counts
		if err := d.Decode(p); err != nil {
			return fmt.Errorf("cannot read what the tenant's gateways have reserved: %w", err)
		}
	}
	for key, a := range p.Keys {
		if a == nil {
			delete(p.Keys, key)
		}
	}
	return p.settle()
}

// text returns the text of the page, and until when it means anything.
func (p *page) text() ([]byte, time.Time, error) {
	until := p.now
	for _, r := range p.Reserved {
		until = latest(until, time.Unix(r.Until, 0))
	}
	maps.DeleteFunc(p.Keys, func(_ string, a *account) bool {
		until = latest(until, a.until(p.now))
		return a.empty()
	})
	if len(p.Reserved) == 0 && len(p.Keys) == 0 {
		return nil, until, nil
	}
	text, err := json.Marshal(p)
	return text, until, err
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// settle drops reservations whose time is over: the gateway that made them is no more. If it came
// as far as making the sandbox, its budget is charged.
func (p *page) settle() error {
	for token, r := range p.Reserved {
		if p.now.Unix() < r.Until {
			continue
		}
		if r.Span != nil {
			all, err := p.list()
			if err != nil {
				return err
			}
			if s := all[r.ID]; s != nil && lives(s) {
				p.open(r.Key, r.ID, *r.Span)
			}
		}
		delete(p.Reserved, token)
	}
	p.settleAccounts()
	return nil
}

// total returns what the tenant has, with all that is reserved.
func (p *page) total(all map[string]*launcher.Summary) amounts {
	byID := map[string]amounts{}
	for id, s := range all {
		byID[id], _ = amountsIn(s)
	}
	for _, r := range p.Reserved {
		byID[r.ID] = byID[r.ID].most(r.Amounts)
	}
	var sum amounts
	for _, a := range byID {
		sum = sum.plus(a)
	}
	return sum
}

// reserve adds a reservation, if quota and budget cover it.
func (p *page) reserve(token string, r reservation, quota *Quota, budget *Budget) error {
	all, err := p.list()
	if err != nil {
		return err
	}
	if p.isFull() {
		return errBookFull
	}
	before := p.total(all)
	if p.Reserved == nil {
		p.Reserved = map[string]reservation{}
	}
	p.Reserved[token] = r
	err = quota.covers(before, p.total(all))
	if err == nil && r.Span != nil {
		err = p.covers(r, budget)
	}
	if err != nil {
		delete(p.Reserved, token)
	}
	return err
}

// books are the books that a gateway writes in.
type books struct {
	mu       sync.Mutex
	byTenant map[string]*book
}

// of returns a tenant's book. There are as many as tenants with a quota.
func (b *books) of(g *Gateway, tenant string) *book {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byTenant == nil {
		b.byTenant = map[string]*book{}
	}
	if b.byTenant[tenant] == nil {
		b.byTenant[tenant] = &book{gateway: g, tenant: tenant}
	}
	return b.byTenant[tenant]
}

// book writes a tenant's changes. Those that come while others are being written are written
// together, so that many creates at once do not compete.
type book struct {
	gateway *Gateway
	tenant  string

	mu      sync.Mutex
	waiting []*entry
	writing bool
}

// batchLimit is how many changes are written together. For each, all sandboxes are counted.
const batchLimit = 256

// entry is a change that waits to be written.
type entry struct {
	change func(*page) error // may be called several times, each time on what the book says then
	err    error
	done   chan struct{}
}

// write changes the book. It returns change's error, and does not end with its caller, so that it
// is always known what was written; bookTimeout bounds it.
func (b *book) write(change func(*page) error) error {
	e := &entry{change: change, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, e)
	lead := !b.writing
	b.writing = true
	b.mu.Unlock()
	if lead {
		go b.writeAll()
	}
	<-e.done
	return e.err
}

func (b *book) writeAll() {
	for {
		b.mu.Lock()
		batch := b.waiting[:min(len(b.waiting), batchLimit)]
		b.waiting, b.writing = b.waiting[len(batch):], len(batch) > 0
		b.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		b.writeBatch(batch)
	}
}

// bookPrefix begins the names of books in the ledger, before that of the tenant.
const bookPrefix = "quota."

// errNoLedger says that a gateway cannot count.
var errNoLedger = errors.New("the gateway has no ledger")

// writeBatch writes the changes in the order in which they came.
func (b *book) writeBatch(batch []*entry) {
	ctx, cancel := context.WithTimeout(context.Background(), bookTimeout)
	defer cancel()
	err := errNoLedger
	if ledger := b.gateway.Ledger; ledger != nil {
		err = ledger.Amend(ctx, bookPrefix+b.tenant, func(ctx context.Context, old []byte) ([]byte, time.Time, error) {
			p := &page{list: sync.OnceValues(func() (map[string]*launcher.Summary, error) { return b.sandboxes(ctx) })}
			if err := p.parse(old, time.Now()); err != nil {
				return nil, time.Time{}, err
			}
			for _, e := range batch {
				e.err = e.change(p)
			}
			return p.text()
		})
	}
	for _, e := range batch {
		if err != nil {
			e.err = err
		}
		close(e.done)
	}
}

// sandboxes returns the tenant's sandboxes by id. All count, so a list that lacks some is an error.
func (b *book) sandboxes(ctx context.Context) (map[string]*launcher.Summary, error) {
	all, err := b.gateway.Launcher.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting the tenant's sandboxes: %w", err)
	}
	byID := map[string]*launcher.Summary{}
	for _, s := range ofTenant(b.tenant, all) {
		byID[s.ID] = &s
	}
	return byID, nil
}
