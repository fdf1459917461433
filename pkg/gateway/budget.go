package gateway

import (
	"errors"
	"fmt"
	"maps"
	"time"
)

// account says how much of its budget a key has used.
type account struct {
	// Used are the seconds of sandboxes that have ended, by days of UTC, as 2006-01-02. Days that
	// are over are left out.
	Used map[string]int64 `json:"used,omitempty"`
	// Open are the sandboxes that may live, by id.
	Open map[string]span `json:"open,omitempty"`
}

// span is when a sandbox lives, in Unix time. To is when it ends at the latest; 0 is no end.
type span struct {
	From int64 `json:"from"`
	To   int64 `json:"to,omitempty"`
}

const daySeconds = 24 * 60 * 60

// dayOf returns the day of a time, counted from 1970, and dayName its name.
func dayOf(unix int64) int64 { return unix / daySeconds }

func dayName(day int64) string { return time.Unix(day*daySeconds, 0).UTC().Format(time.DateOnly) }

// on returns how many seconds of a day a span has.
func (s span) on(day int64) int64 {
	from, to := max(s.From, day*daySeconds), (day+1)*daySeconds
	if s.To != 0 {
		to = min(to, s.To)
	}
	return max(0, to-from)
}

func (a *account) empty() bool { return len(a.Used) == 0 && len(a.Open) == 0 }

// until returns until when the account means anything.
func (a *account) until(now time.Time) time.Time {
	end := time.Time{}
	if len(a.Used) > 0 {
		end = time.Unix((dayOf(now.Unix())+1)*daySeconds, 0)
	}
	for _, s := range a.Open {
		if s.To == 0 {
			return now.AddDate(10, 0, 0)
		}
		end = latest(end, time.Unix((dayOf(s.To)+1)*daySeconds, 0))
	}
	return end
}

// close ends the span of a sandbox at a time.
func (a *account) close(id string, at int64) {
	s, ok := a.Open[id]
	if !ok {
		return
	}
	delete(a.Open, id)
	if s.To == 0 || at < s.To {
		s.To = max(at, s.From+1)
	}
	for day := dayOf(s.From); day <= dayOf(s.To); day++ {
		if n := s.on(day); n > 0 {
			if a.Used == nil {
				a.Used = map[string]int64{}
			}
			a.Used[dayName(day)] += n
		}
	}
}

// open notes that a key's sandbox lives. If it is noted already, it counts as it is.
func (p *page) open(key, id string, s span) {
	if p.isOpen(id) {
		return
	}
	if p.Keys == nil {
		p.Keys = map[string]*account{}
	}
	if p.Keys[key] == nil {
		p.Keys[key] = &account{}
	}
	if p.Keys[key].Open == nil {
		p.Keys[key].Open = map[string]span{}
	}
	p.Keys[key].Open[id] = s
}

// anyOpen reports whether a key's sandbox lives.
func (p *page) anyOpen() bool {
	for _, a := range p.Keys {
		if len(a.Open) > 0 {
			return true
		}
	}
	return false
}

func (p *page) isOpen(id string) bool {
	for _, a := range p.Keys {
		if _, ok := a.Open[id]; ok {
			return true
		}
	}
	return false
}

// close ends the span of a sandbox now, whoever made it.
func (p *page) close(id string) {
	for _, a := range p.Keys {
		a.close(id, p.now.Unix())
	}
}

// settleAccounts closes the spans whose time is over, and forgets days that are.
func (p *page) settleAccounts() {
	today := dayName(dayOf(p.now.Unix()))
	for _, a := range p.Keys {
		for id, s := range a.Open {
			if s.To != 0 && s.To <= p.now.Unix() {
				a.close(id, s.To)
			}
		}
		maps.DeleteFunc(a.Used, func(day string, _ int64) bool { return day < today })
	}
}

// closeEnded closes the spans of sandboxes that live no more: they ended by themselves, or without
// a gateway.
func (p *page) closeEnded() error {
	if !p.anyOpen() {
		return nil
	}
	all, err := p.list()
	if err != nil {
		return err
	}
	reserved := map[string]bool{}
	for _, r := range p.Reserved {
		reserved[r.ID] = true
	}
	for _, a := range p.Keys {
		for id := range a.Open {
			if s := all[id]; !reserved[id] && (s == nil || !lives(s)) {
				a.close(id, p.now.Unix())
			}
		}
	}
	return nil
}

// used returns how many seconds of a day a key has used, or may yet use.
func (p *page) used(key string, day int64) int64 {
	var sum int64
	if a := p.Keys[key]; a != nil {
		sum = a.Used[dayName(day)]
		for _, s := range a.Open {
			sum += s.on(day)
		}
	}
	reserved := map[string]int64{}
	for _, r := range p.Reserved {
		if r.Key == key && r.Span != nil && !p.isOpen(r.ID) {
			reserved[r.ID] = max(reserved[r.ID], r.Span.on(day))
		}
	}
	for _, n := range reserved {
		sum += n
	}
	return sum
}

// daysLimit is how many days of a sandbox's life are compared with the budget: a year's.
const daysLimit = 366

// covers returns a *usedUp if the key of a reservation, which the page has already, uses more than
// its budget on one of the days on which the sandbox may live.
func (p *page) covers(r reservation, budget *Budget) error {
	if p.isOpen(r.ID) {
		return nil
	}
	first, last := dayOf(r.Span.From), dayOf(r.Span.To)
	if r.Span.To == 0 {
		last = first + 1 // the days after that are like it
	}
	for day := first; day <= min(last, first+daysLimit); day++ {
		if used := p.used(r.Key, day); used > budget.seconds() {
			return overBudget(r, day, used, budget)
		}
	}
	return nil
}

func overBudget(r reservation, day, used int64, budget *Budget) error {
	takes := r.Span.on(day)
	e := &usedUp{class: "budget_exceeded", detail: fmt.Sprintf(
		"the budget of the key %q for %s (UTC) does not suffice: of %s, sandboxes use or may use %s, and this one may use %s, unless it has a shorter lifetime_seconds",
		r.Key, dayName(day), hours(budget.seconds()), hours(used-takes), hours(takes))}
	if takes <= budget.seconds() { // otherwise it never fits
		e.until = time.Unix((day+1)*daySeconds, 0).UTC()
	}
	return e
}

func hours(seconds int64) string { return (time.Duration(seconds) * time.Second).String() }

var errNoSpan = errors.New("the sandbox is not of a key with a budget")

// extend lets the span of a sandbox end at a time, if that is later and its key's budget, if it still
// has one, admits it. It returns the end that it had.
func (p *page) extend(id string, to int64, budgets map[string]Budget) (int64, error) {
	for key, a := range p.Keys {
		s, ok := a.Open[id]
		if !ok {
			continue
		}
		old := s.To
		if old == 0 || to <= old {
			return old, nil
		}
		s.To = to
		a.Open[id] = s
		budget, bounded := budgets[key]
		added := span{old, to}
		for day := dayOf(old); bounded && day <= min(dayOf(to), dayOf(old)+daysLimit); day++ {
			if used := p.used(key, day); added.on(day) > 0 && used > budget.seconds() {
				a.Open[id] = span{s.From, old}
				return old, overBudget(reservation{Key: key, Span: &added}, day, used, &budget)
			}
		}
		return old, nil
	}
	return 0, errNoSpan
}

// shorten lets the span of a sandbox that ends at to end as before, unless it was changed since.
func (p *page) shorten(id string, to, before int64) {
	for _, a := range p.Keys {
		if s, ok := a.Open[id]; ok && s.To == to && before < to {
			s.To = before
			a.Open[id] = s
		}
	}
}
