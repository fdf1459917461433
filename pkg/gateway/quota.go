package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
)

// Quota bounds what a tenant has at a time, exactly, over all gateways. Zero is no bound.
type Quota struct {
	// Sandboxes is how many there are, paused ones too.
	Sandboxes int64 `json:"sandboxes,omitempty"`
	// CPU and Memory are of the pods that run or start: their limits, or what they request if they
	// have none.
	CPU    resource.Quantity `json:"cpu,omitzero"`
	Memory resource.Quantity `json:"memory,omitzero"`
	// Storage is the size of the workspaces, also of paused sandboxes.
	Storage resource.Quantity `json:"storage,omitzero"`
}

// Budget bounds what a key uses in a day of UTC. Zero is no bound.
type Budget struct {
	// SandboxHours is for how long the key's sandboxes live on that day, in hours, all together. A
	// sandbox counts with its whole lifetime when it is made or resumed. What it did not use is
	// given back when it is deleted or paused, or is found to have ended.
	SandboxHours float64 `json:"sandbox_hours_per_day,omitempty"`
}

func (q *Quota) check() error {
	if q.Sandboxes < 0 || q.CPU.Sign() < 0 || q.Memory.Sign() < 0 || q.Storage.Sign() < 0 {
		return errors.New("a quota cannot be negative")
	}
	return nil
}

// hoursLimit is more than any budget needs: of 100,000 sandboxes that run all day.
const hoursLimit = 2_400_000

func (b *Budget) check() error {
	if !(b.SandboxHours >= 0 && b.SandboxHours <= hoursLimit) {
		return fmt.Errorf("sandbox_hours_per_day must be between 0 and %d", hoursLimit)
	}
	return nil
}

func (b *Budget) seconds() int64 { return int64(b.SandboxHours * 3600) }

// amounts are what quotas count.
type amounts struct {
	Sandboxes int64 `json:"sandboxes"`
	CPU       int64 `json:"cpu,omitempty"`     // in thousandths of a processor
	Memory    int64 `json:"memory,omitempty"`  // in bytes
	Storage   int64 `json:"storage,omitempty"` // in bytes
}

// amountLimit is more than any sandbox has of anything. A sum of thousands still fits.
const amountLimit = 1 << 50

func whole(q resource.Quantity) int64 {
	if q.CmpInt64(amountLimit) >= 0 {
		return amountLimit
	}
	return q.Value()
}

func thousandths(q resource.Quantity) int64 {
	if q.CmpInt64(amountLimit/1000) >= 0 {
		return amountLimit
	}
	return q.MilliValue()
}

func (q *Quota) amounts() amounts {
	return amounts{q.Sandboxes, thousandths(q.CPU), whole(q.Memory), whole(q.Storage)}
}

func (a amounts) plus(b amounts) amounts {
	return amounts{a.Sandboxes + b.Sandboxes, a.CPU + b.CPU, a.Memory + b.Memory, a.Storage + b.Storage}
}

func (a amounts) most(b amounts) amounts {
	return amounts{max(a.Sandboxes, b.Sandboxes), max(a.CPU, b.CPU), max(a.Memory, b.Memory), max(a.Storage, b.Storage)}
}

// sums reports whether there is anything but a count of sandboxes.
func (a amounts) sums() bool { return a.CPU > 0 || a.Memory > 0 || a.Storage > 0 }

// amountsOf returns what the pod of a new sandbox has.
func amountsOf(spec *launcher.Spec) amounts {
	a := amounts{Sandboxes: 1}
	r := &spec.Pod.Resources
	a.CPU = thousandths(bound(r, corev1.ResourceCPU, launcher.DefaultCPULimit, launcher.DefaultCPU))
	a.Memory = whole(bound(r, corev1.ResourceMemory, launcher.DefaultMemoryLimit, launcher.DefaultMemory))
	switch size := spec.Pod.Workspace.Size; {
	case !hasOwnWorkspace(spec):
	case size.Sign() == 0:
		a.Storage = whole(resource.MustParse(launcher.DefaultWorkspaceSize))
	case size.Sign() > 0:
		a.Storage = whole(size)
	}
	return a
}

// bound returns a limit as the launcher sets it, or what is requested where there is no limit.
func bound(r *corev1.ResourceRequirements, name corev1.ResourceName, defaultLimit, defaultRequest string) resource.Quantity {
	limit, limited := r.Limits[name]
	request, requested := r.Requests[name]
	switch {
	case limited && !limit.IsZero():
		return limit
	case limited && requested:
		return request
	case limited:
		return resource.MustParse(defaultRequest)
	}
	limit = resource.MustParse(defaultLimit)
	if request.Cmp(limit) > 0 {
		return request
	}
	return limit
}

// amountsIn returns what a sandbox has now, and what it would have with a pod.
func amountsIn(s *launcher.Summary) (now, running amounts) {
	running = amounts{
		1, thousandths(s.Resources[corev1.ResourceCPU]), whole(s.Resources[corev1.ResourceMemory]), whole(s.Resources[corev1.ResourceStorage]),
	}
	if now = running; !lives(s) {
		now.CPU, now.Memory = 0, 0
	}
	return now, running
}

// lives reports whether a sandbox has a pod that has not ended.
func lives(s *launcher.Summary) bool {
	return s.State != launcher.Paused && s.State != launcher.Ended && !(s.State == launcher.Terminating && s.Pod == "")
}

// usedUp says that a quota or a budget leaves no room.
type usedUp struct {
	class  string // quota_exceeded or budget_exceeded
	detail string
	until  time.Time // when there may be room; zero if that is unknown
}

func (e *usedUp) Error() string { return e.detail }

// problem returns the answer, which says when to try again, if that is known.
func (e *usedUp) problem() error {
	p := newProblem(http.StatusTooManyRequests, e.class, e.detail)
	if e.until.IsZero() {
		return p
	}
	p.Until = &e.until
	return huma.ErrorWithHeaders(p, http.Header{"Retry-After": {wholeSeconds(time.Until(e.until))}})
}

// covers returns a *usedUp if what a tenant has would grow beyond the quota.
func (q *Quota) covers(before, after amounts) error {
	most := q.amounts()
	for _, r := range []struct {
		name                string
		before, after, most int64
		text                func(int64) string
	}{
		{"sandboxes", before.Sandboxes, after.Sandboxes, most.Sandboxes, count},
		{"cpu", before.CPU, after.CPU, most.CPU, processors},
		{"memory", before.Memory, after.Memory, most.Memory, inBytes},
		{"storage", before.Storage, after.Storage, most.Storage, inBytes},
	} {
		if r.most > 0 && r.after > r.most && r.after > r.before {
			return &usedUp{class: "quota_exceeded", detail: fmt.Sprintf("the quota of %s is used up: there are %s of %s, and this takes %s more",
				r.name, r.text(r.before), r.text(r.most), r.text(r.after-r.before))}
		}
	}
	return nil
}

func count(n int64) string { return fmt.Sprint(n) }

func processors(n int64) string { return resource.NewMilliQuantity(n, resource.DecimalSI).String() }

func inBytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

// keyLimit bounds the name of a key with a budget, in bytes: it is in the ledger.
const keyLimit = 63

// setBudget gives a key a budget, unless it is nil.
func (p *Policy) setBudget(key string, b *Budget) error {
	if b == nil || *b == (Budget{}) {
		return nil
	}
	if err := b.check(); err != nil {
		return err
	}
	if len(key) > keyLimit {
		return fmt.Errorf("the name of a key with a budget has up to %d bytes", keyLimit)
	}
	if old, ok := p.Budgets[key]; ok && old != *b {
		return fmt.Errorf("keys of the name %q share a budget, so it must be the same", key)
	}
	if p.Budgets == nil {
		p.Budgets = map[string]Budget{}
	}
	p.Budgets[key] = *b
	return nil
}
