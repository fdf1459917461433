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
	tenants map[string]*tenant // those that have a page, or have lost one
	size    int
	began   time.Time
}

// tenant has the pages of one, which says nothing about another: also when a page of it last went.
type tenant struct {
	lost  time.Time                // when a page last went, or before that when all began
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
	return &Pages[P]{began: time.Now(), tenants: map[string]*tenant{}}
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
		p.drop(t)
	}
	for p.size > mostOfAll && len(p.tenants) > 1 {
		p.drop(p.largest())
	}
}

// add adds an empty page.
func (p *Pages[P]) add(name, sandbox string) *tenant {
	t := p.tenants[name]
	if t == nil {
		t = &tenant{lost: p.began, pages: map[string]*list.Element{}, order: list.New()}
		p.tenants[name] = t
	}
	of := &page[P]{sandbox: sandbox, since: t.lost}
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
func (p *Pages[P]) largest() (most *tenant) {
	for _, t := range p.tenants {
		if most == nil || t.size > most.size {
			most = t
		}
	}
	return most
}

// drop lets the oldest page of a tenant go.
func (p *Pages[P]) drop(t *tenant) {
	p.remove(t, t.order.Back())
	t.lost = time.Now()
}

func (p *Pages[P]) remove(t *tenant, e *list.Element) {
	of := t.order.Remove(e).(*page[P])
	p.grow(t, of, -of.size)
	delete(t.pages, of.sandbox)
}

// Look calls look with the page of a tenant's sandbox, unless there is none, and returns since when all that
// happened there was written down.
func (p *Pages[P]) Look(name, sandbox string, look func(*P)) (since time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[name]
	if t == nil {
		return p.began
	}
	if e := t.pages[sandbox]; e != nil {
		of := e.Value.(*page[P])
		look(&of.of)
		return of.since
	}
	return t.lost
}

// Forget removes the page of a tenant's sandbox. A tenant that has lost none is then forgotten as well.
func (p *Pages[P]) Forget(name, sandbox string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tenants[name]; t != nil && t.pages[sandbox] != nil {
		p.remove(t, t.pages[sandbox])
		if len(t.pages) == 0 && t.lost.Equal(p.began) {
			delete(p.tenants, name)
		}
	}
}
