package gateway

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// evening is two hours before midnight.
var evening = time.Date(2026, 5, 6, 22, 0, 0, 0, time.UTC)

// bookAt is a book, and the sandboxes that there are.
type bookAt struct {
	*testing.T
	text  []byte
	now   time.Time
	there map[string]*launcher.Summary
}

// amend changes the book as a gateway does.
func (b *bookAt) amend(change func(*page) error) error {
	b.Helper()
	p := &page{list: func() (map[string]*launcher.Summary, error) { return b.there, nil }}
	if err := p.parse(b.text, b.now); err != nil {
		b.Fatal(err)
	}
	result := change(p)
	text, until, err := p.text()
	if err != nil {
		b.Fatal(err)
	}
	if len(text) > 0 && !until.After(b.now) {
		b.Errorf("at %v %s means nothing after %v", b.now, text, until)
	}
	b.text = text
	return result
}

// make makes a sandbox of a key that lives for a time.
func (b *bookAt) make(key, id string, lifetime time.Duration, hours float64) error {
	b.Helper()
	w := wanted{id: id, amounts: amounts{Sandboxes: 1}, lifetime: lifetime, limit: time.Minute}
	var r reservation
	err := b.amend(func(p *page) (err error) {
		r, err = p.take("token", reservation{ID: id, Key: key, Amounts: w.amounts}, w, &Quota{}, &Budget{hours})
		return err
	})
	if err != nil {
		return err
	}
	s := &launcher.Summary{ID: id, State: launcher.Running, Pod: id}
	created := b.there[id] == nil
	b.there[id] = s
	return b.amend(func(p *page) error { p.release("token", r, &launcher.Sandbox{Created: created}, w); return nil })
}

// mustUse compares what a key uses on the day of b.now and on the next one.
func (b *bookAt) mustUse(key string, today, tomorrow time.Duration) {
	b.Helper()
	_ = b.amend(func(p *page) error {
		day := dayOf(b.now.Unix())
		got := [2]time.Duration{time.Duration(p.used(key, day)) * time.Second, time.Duration(p.used(key, day+1)) * time.Second}
		if got != [2]time.Duration{today, tomorrow} {
			b.Errorf("%s uses %v, want %v and %v: %s", key, got, today, tomorrow, b.text)
		}
		return nil
	})
}

func newBookAt(t *testing.T) *bookAt {
	return &bookAt{T: t, now: evening, there: map[string]*launcher.Summary{}}
}

func (b *bookAt) mustFit(err error) {
	b.Helper()
	if err != nil {
		b.Errorf("refused: %v", err)
	}
}

func (b *bookAt) mustNotFit(err error, until time.Time) {
	b.Helper()
	e, ok := errors.AsType[*usedUp](err)
	if !ok || !e.until.Equal(until) {
		b.Errorf("refused with %v until %v, want until %v", err, e, until)
	}
}

func TestLifetimeCountsOnItsDays(t *testing.T) {
	b := newBookAt(t)
	midnight := evening.Add(2 * time.Hour)
	b.mustFit(b.make("ci", "a", 3*time.Hour, 4)) // two hours today, one tomorrow
	b.mustUse("ci", 2*time.Hour, time.Hour)
	b.mustFit(b.make("ci", "b", 2*time.Hour, 4))
	b.mustNotFit(b.make("ci", "c", time.Hour, 4), midnight)
	b.mustFit(b.make("other", "c", time.Hour, 4))
	b.mustUse("ci", 4*time.Hour, time.Hour)
	b.mustFit(b.make("ci", "a", 3*time.Hour, 4)) // which lives
	b.mustUse("ci", 4*time.Hour, time.Hour)

	b.now = midnight
	b.mustUse("ci", time.Hour, 0)
	b.mustNotFit(b.make("ci", "d", 30*time.Hour, 4), time.Time{})                  // which never fits
	b.mustNotFit(b.make("ci", "d", 23*time.Hour, 23.5), midnight.AddDate(0, 0, 1)) // with the hour of a
	b.mustFit(b.make("ci", "d", 3*time.Hour, 4))
}

func TestUnusedLifetimeIsGivenBack(t *testing.T) {
	b := newBookAt(t)
	b.mustFit(b.make("ci", "a", 8*time.Hour, 10))
	b.now = evening.Add(time.Hour)
	delete(b.there, "a")
	_ = b.amend(func(p *page) error { p.close("a"); return nil })
	b.mustUse("ci", time.Hour, 0)

	b.mustFit(b.make("ci", "b", 8*time.Hour, 10))
	b.now = b.now.Add(30 * time.Minute)
	b.there["b"].State = launcher.Ended // by itself
	b.mustUse("ci", 2*time.Hour, 7*time.Hour)
	b.mustFit(b.make("ci", "c", time.Minute, 10)) // finds that out
	b.mustUse("ci", 91*time.Minute, 0)

	b.there["b"].State = launcher.Paused
	b.there["b"].Lifetime = 8 * time.Hour
	_ = b.amend(func(p *page) error {
		r, err := p.take("t", reservation{ID: "b", Key: "ci"}, wanted{id: "b", resume: true, lifetime: time.Hour}, &Quota{}, &Budget{10})
		b.mustFit(err)
		if r.Span.To-r.Span.From != 8*3600 {
			t.Errorf("the span is %v, want 8 hours", r.Span)
		}
		delete(p.Reserved, "t")
		return nil
	})
}

func TestExtensionCounts(t *testing.T) {
	b := newBookAt(t)
	b.mustFit(b.make("ci", "a", time.Hour, 3))
	extend := func(d time.Duration) (old int64, err error) {
		err = b.amend(func(p *page) error {
			old, err = p.extend("a", p.now.Add(d).Unix(), map[string]Budget{"ci": {3}})
			return err
		})
		return old, err
	}
	_, err := extend(4 * time.Hour)
	b.mustFit(err)
	b.mustUse("ci", 2*time.Hour, 2*time.Hour)
	_, err = extend(6 * time.Hour)
	b.mustNotFit(err, evening.Add(26*time.Hour))
	b.mustUse("ci", 2*time.Hour, 2*time.Hour)
	old, err := extend(5 * time.Hour)
	b.mustFit(err)
	_ = b.amend(func(p *page) error { p.shorten("a", p.now.Add(5*time.Hour).Unix(), old); return nil })
	b.mustUse("ci", 2*time.Hour, 2*time.Hour)
}

// A gateway that is killed after it made a sandbox, and before it said so, leaves what the sandbox
// uses to the next one that reads the book.
func TestBudgetOfADeadGatewayIsCharged(t *testing.T) {
	for _, made := range []bool{true, false} {
		b := newBookAt(t)
		if made {
			b.there["a"] = &launcher.Summary{ID: "a", State: launcher.Running, Pod: "a"}
		}
		b.text = fmt.Appendf(nil, `{"reserved":{"x":{"id":"a","until":%d,"amounts":{"sandboxes":1},"key":"ci","span":{"from":%d,"to":%d}}}}`,
			evening.Add(2*time.Minute).Unix(), evening.Unix(), evening.Add(time.Hour).Unix())
		b.mustUse("ci", time.Hour, 0)
		b.now = evening.Add(2 * time.Minute)
		b.mustUse("ci", map[bool]time.Duration{true: time.Hour, false: 0}[made], 0)
	}
}

// The longest names there can be are what a book has fewest of.
func TestBookIsBounded(t *testing.T) {
	name := func(length, i int) string { return fmt.Sprintf("%0*d", length, i) }
	for _, of := range []struct{ reserved, spans, keys int }{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 1}} {
		b, made := newBookAt(t), 0
		err := b.amend(func(p *page) error {
			p.Reserved, p.Keys = map[string]reservation{}, map[string]*account{}
			for ; !p.isFull(); made++ {
				if id := name(tenantLimit+1+nameLimit, made); of.reserved > 0 {
					p.Reserved[name(8, made)] = reservation{
						id, evening.Add(time.Hour).Unix(), amounts{1, amountLimit, amountLimit, amountLimit}, name(keyLimit, 0), &span{evening.Unix(), evening.Unix() + 9},
					}
				}
				if of.spans > 0 {
					p.open(name(keyLimit, made), name(tenantLimit+1+nameLimit, made), span{evening.Unix(), evening.Unix() + 9})
				}
				if of.keys > 0 {
					p.Keys[name(keyLimit, -made)] = &account{Used: map[string]int64{"2026-05-06": hoursLimit * 3600, "2026-05-07": hoursLimit * 3600}}
				}
			}
			return p.reserve("token", reservation{ID: "a"}, &Quota{}, &Budget{})
		})
		if !errors.Is(err, errBookFull) {
			t.Errorf("the error is %v", err)
		}
		if len(b.text) > 192<<10 || made < 300/(of.reserved+of.spans+of.keys) {
			t.Errorf("%d of %v have %d bytes", made, of, len(b.text))
		}
	}
}

func TestQuotaCountsTheLimitsOfASpec(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	const mi, gi = 1 << 20, 1 << 30
	for _, c := range []struct {
		resources corev1.ResourceRequirements
		size      string
		want      amounts
	}{
		{corev1.ResourceRequirements{}, "0", amounts{1, 4000, 4 * gi, 10 * gi}},
		{corev1.ResourceRequirements{Limits: list("500m", "64Mi")}, "1Gi", amounts{1, 500, 64 * mi, gi}},
		{corev1.ResourceRequirements{Requests: list("8", "64Mi")}, "-1", amounts{1, 8000, 4 * gi, 0}},
		{corev1.ResourceRequirements{Limits: list("0", "0"), Requests: list("1", "2Gi")}, "0", amounts{1, 1000, 2 * gi, 10 * gi}},
		{corev1.ResourceRequirements{Limits: list("0", "0")}, "0", amounts{1, 10, 128 * mi, 10 * gi}},
		{corev1.ResourceRequirements{Limits: list("9e18", "9e18")}, "9e18", amounts{1, amountLimit, amountLimit, amountLimit}},
	} {
		spec := launcher.Spec{}
		spec.Pod.Resources, spec.Pod.Workspace.Size = c.resources, resource.MustParse(c.size)
		if got := amountsOf(&spec); got != c.want {
			t.Errorf("%v: %v, want %v", c.resources, got, c.want)
		}
	}
	spec := launcher.Spec{Workdir: "/work"}
	spec.Pod.Volumes = []launcher.Volume{{Claim: "shared", Path: "/work"}} // in the workspace's place
	if got := amountsOf(&spec); got.Storage != 0 {
		t.Errorf("its storage is %d", got.Storage)
	}
}
