// Package recent keeps in memory what has happened in sandboxes of late: a page for each, within bounds for all,
// and for each tenant, so that neither one that does a lot nor many that do a little take more.
package recent

import (
	"container/list"
	"sync"
	"time"
)

// Pages are those of all sandboxes. A page that has not changed for longest goes first: one of the same tenant if
// that has as much as it may, otherwise one of the tenant that has most.
type Pages[P any] struct {
	mu      sync.Mutex
	tenants map[string]*tenant
	size    int
	lost    time.Time // when a page last went
}

type tenant struct {
	pages map[string]*list.Element // by their sandboxes
	order *list.List               // of *page, the one that changed last first
	size  int
}

type page[P any] struct {
	sandbox string
	of      P
	since   time.Time
	size    int
}

// New returns pages without anything in them.
func New[P any]() *Pages[P] {
	now := time.Now()
	return &Pages[P]{lost: now, tenants: map[string]*tenant{}}
}

// Change changes the page of a tenant's sandbox. The function returns by how many bytes it has grown. Without
// make there must be a page.
func (p *Pages[P]) Change(name, sandbox string, make bool, change func(*P) (grown int)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[name]
	if t == nil || t.pages[sandbox] == nil {
		if !make {
			return
		}
		t = p.add(name, sandbox)
	}
	e := t.pages[sandbox]
	of := e.Value.(*page[P])
	t.order.MoveToFront(e)
	p.grow(t, of, change(&of.of))
	for t.size > mostOfTenant && t.order.Len() > 1 {
		p.drop(name, t)
	}
	for p.size > mostOfAll && len(p.tenants) > 1 {
		p.drop(p.largest())
	}
}

// add adds an empty page.
func (p *Pages[P]) add(name, sandbox string) *tenant {
	t := p.tenants[name]
	if t == nil {
		t = &tenant{pages: map[string]*list.Element{}, order: list.New()}
		p.tenants[name] = t
	}
	of := &page[P]{sandbox: sandbox, since: p.lost}
	t.pages[sandbox] = t.order.PushFront(of)
	p.grow(t, of, pageSize)
	return t
}

func (p *Pages[P]) grow(t *tenant, of *page[P], by int) {
	of.size += by
	t.size += by
	p.size += by
}

// largest returns the tenant that has most.
func (p *Pages[P]) largest() (name string, most *tenant) {
	for n, t := range p.tenants {
		if most == nil || t.size > most.size {
			name, most = n, t
		}
	}
	return name, most
}

// drop lets the oldest page of a tenant go.
func (p *Pages[P]) drop(name string, t *tenant) {
	p.remove(name, t, t.order.Back())
	p.lost = time.Now()
}

func (p *Pages[P]) remove(name string, t *tenant, e *list.Element) {
	of := t.order.Remove(e).(*page[P])
	p.grow(t, of, -of.size)
	if delete(t.pages, of.sandbox); len(t.pages) == 0 {
		delete(p.tenants, name)
	}
}

// Look calls look with the page of a tenant's sandbox, unless there is none, and returns since when all that
// happened there was written down.
func (p *Pages[P]) Look(name, sandbox string, look func(*P)) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tenants[name]; t != nil && t.pages[sandbox] != nil {
		of := t.pages[sandbox].Value.(*page[P])
		look(&of.of)
		return of.since
	}
	return p.lost
}

// Forget removes the page of a tenant's sandbox.
func (p *Pages[P]) Forget(name, sandbox string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tenants[name]; t != nil && t.pages[sandbox] != nil {
		p.remove(name, t, t.pages[sandbox])
	}
}
