package recent

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

type numbers = List[int, int]

func (p *Pages[P]) sizes() (sum int) {
	for _, t := range p.tenants {
		sum += t.size
		for _, e := range t.pages {
			sum -= e.Value.(*page[P]).size
		}
	}
	return sum
}

func TestListKeepsTheNewestWithinItsSize(t *testing.T) {
	var l numbers
	grown := 0
	for i := range 10 {
		grown += l.Put(i, i, 0, 3*valueSize)
	}
	grown += l.Put(8, 80, 0, 3*valueSize)
	l.Set(7, 70)
	l.Set(1, 10) // which is gone
	if got := slices.Collect(l.All()); !slices.Equal(got, []int{80, 9, 70}) || l.Omitted() != 7 || grown != 3*valueSize {
		t.Errorf("it has %v, of which %d are omitted, in %d bytes", got, l.Omitted(), grown)
	}
	if _, ok := l.Get(1); ok {
		t.Error("it has what it let go")
	}
	if l.Put(11, 11, 10*valueSize, 3*valueSize); len(slices.Collect(l.All())) != 1 {
		t.Error("what is larger than all is not alone")
	}
}

// A tenant with many sandboxes takes no room from another one, and all together not more than there is.
func TestPagesOfATenantTakeNoRoomFromAnothers(t *testing.T) {
	p := New[numbers]()
	fill := func(tenant string, sandboxes int) {
		for i := range sandboxes {
			p.Change(tenant, fmt.Sprint(i), true, func(l *numbers) int { return l.Put(0, 0, 1<<20, 2<<20) })
		}
	}
	has := func(tenant, sandbox string) (has bool) {
		p.Look(tenant, sandbox, func(*numbers) { has = true })
		return has
	}
	fill("quiet", 1)
	for i := range 20 {
		fill(fmt.Sprint("many-", i), 20)
	}
	if p.size > mostOfAll+mostOfTenant || p.tenants["many-19"].size > mostOfTenant {
		t.Errorf("there are %d bytes, of one %d", p.size, p.tenants["many-19"].size)
	}
	if !has("quiet", "0") || has("many-19", "0") || !has("many-19", "19") {
		t.Error("it is not the oldest that goes, of the tenant that has most")
	}
	if sum := p.sizes(); sum != 0 {
		t.Errorf("the sizes differ by %d", sum)
	}
	if since := p.Look("many-19", "0", nil); since.IsZero() || since.After(time.Now()) {
		t.Errorf("nothing is missing since %v", since)
	}
	p.Forget("quiet", "0")
	if p.Change("quiet", "0", false, func(*numbers) int { panic("it is gone") }); has("quiet", "0") || p.tenants["quiet"] != nil {
		t.Error("what is forgotten is there")
	}
}

// What a tenant loses is said to itself alone, also when it has no page any more.
func TestPagesThatATenantLosesAreNoneOfAnothers(t *testing.T) {
	p := New[numbers]()
	since := func(tenant, sandbox string) time.Time { return p.Look(tenant, sandbox, func(*numbers) {}) }
	add := func(tenant, sandbox string) {
		p.Change(tenant, sandbox, true, func(l *numbers) int { return l.Put(0, 0, mostOfTenant/2, mostOfTenant) })
	}
	began := since("quiet", "0")
	for i := range 3 {
		add("loud", fmt.Sprint(i))
	}
	add("quiet", "0")
	for _, sandbox := range []string{"0", "1"} {
		if got := since("quiet", sandbox); got != began {
			t.Errorf("another tenant is told that pages went at %v", got)
		}
	}
	lost := since("loud", "0")
	p.Forget("loud", "1")
	p.Forget("loud", "2")
	if !lost.After(began) || since("loud", "0") != lost {
		t.Errorf("the tenant is told %v and %v, since %v", lost, since("loud", "0"), began)
	}
	for i := range mostOfAll/mostOfTenant + 2 {
		add(fmt.Sprint("many-", i), "0")
		add(fmt.Sprint("many-", i), "1")
	}
	if got := since("quiet", "0"); got != began || p.size > mostOfAll {
		t.Errorf("a tenant whose pages are there is told %v, with %d bytes", got, p.size)
	}
}
