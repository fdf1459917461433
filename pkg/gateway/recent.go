package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway/internal/recent"
)

// recently is an observer that keeps in memory what this gateway did for sandboxes of late, so that their tenants
// can see it. It is no audit log: that is whole, signed, and its operator's.
type recently struct {
	gateway string // which one this is, for callers of several
	pages   *recent.Pages[recentPage]
	looks   map[string]bool // the operations that only look
}

// recentPage is what is kept of a sandbox. What there may be a lot of has lists of its own, so that it takes no
// room from the rest: calls that only look, and each verdict on what the sandbox tries to reach.
type recentPage struct {
	acts, looks recent.List[string, AuditRecord]
	decisions   map[egress.Verdict]*recent.List[EgressDecision, EgressDecision] // by what does not count
}

func newRecently() *recently {
	return &recently{gateway: strings.ToLower(rand.Text()[:8]), pages: recent.New[recentPage](), looks: map[string]bool{RouteOperation: true}}
}

// learn learns which operations only look.
func (r *recently) learn(api *huma.OpenAPI) {
	for pattern, operation := range operationNames(api) {
		method, _, _ := strings.Cut(pattern, " ")
		if (method == http.MethodGet || method == http.MethodHead) && operation != terminalOperation {
			r.looks[operation] = true
		}
	}
}

// lookMethods are those of podapi that only look; faces call theirs so, too.
var lookMethods = []string{"Check", "Info", "Stats", "Stat", "List", "Read", "Glob", "Grep", "Watch", "Pull", "Checkpoints", "Diff", "Export"}

// looksOnly reports whether an operation changes nothing.
func (r *recently) looksOnly(operation string) bool {
	_, method, _ := strings.Cut(operation, "/")
	return r.looks[operation] || slices.Contains(lookMethods, method)
}

func (p *recentPage) actsOf(look bool) *recent.List[string, AuditRecord] {
	if look {
		return &p.looks
	}
	return &p.acts
}

// Begin implements [Observer].
func (r *recently) Begin(_ context.Context, a Act) error {
	if a.Sandbox != "" && a.Tenant != "" {
		r.put(a, AuditRecord{
			ID: a.ID, Time: a.At.UTC(), Key: a.Key, Operation: a.Operation, Port: a.Port, Method: a.Method, ExecID: a.ExecID, Open: true,
			Args: shortened(a.Args), Paths: shortened(a.Paths),
		}, true)
	}
	return nil
}

// put puts the record of an act into its page. Without make there must be a page.
func (r *recently) put(a Act, record AuditRecord, make bool) {
	r.pages.Change(a.Tenant, a.Sandbox, make, func(p *recentPage) int {
		return p.actsOf(r.looksOnly(a.Operation)).Put(a.ID, record, record.size(), recentActs)
	})
}

// End implements [Observer].
func (r *recently) End(_ context.Context, a Act, o Outcome) {
	if a.Sandbox == "" || a.Tenant == "" {
		return
	}
	r.pages.Change(a.Tenant, a.Sandbox, false, func(p *recentPage) int {
		record, there := p.actsOf(r.looksOnly(a.Operation)).Get(a.ID)
		if !there {
			return 0
		}
		record.Open, record.Status, record.Class, record.Exit = false, o.Status, o.Class, o.Exit
		record.In, record.Out, record.Took = o.In, o.Out, float64(o.Took.Microseconds())/1000
		p.actsOf(r.looksOnly(a.Operation)).Set(a.ID, record)
		return 0
	})
}

// shortened returns the beginnings of texts that have been redacted, as much as a page shows.
func shortened(texts []string) (all []string) {
	left := recentText
	for _, text := range texts {
		if left <= 0 || len(all) == recentTexts {
			return append(all, "…")
		}
		if len(text) > left {
			text = strings.ToValidUTF8(text[:left], "") + "…"
		}
		left -= len(text)
		all = append(all, strings.Clone(text))
	}
	return all
}

// size is that of a record's texts, in bytes.
func (a AuditRecord) size() int {
	size := len(a.ID) + len(a.Key) + len(a.Operation) + len(a.Method) + len(a.ExecID)
	for _, text := range slices.Concat(a.Args, a.Paths) {
		size += len(text) + recentTextSize
	}
	return size
}

// decided keeps what a sandbox has tried. What it tries again counts.
func (r *recently) decided(tenant, sandbox string, d egress.Decision) {
	d = d.Public()
	at := d.Time.UTC()
	what := EgressDecision{
		Verdict: string(d.Verdict), Host: d.Host, Port: d.Port, Protocol: d.Protocol, Rule: shown(d.Rule), Credential: shown(d.Secret),
		Reason: redactText(d.Reason, nameTextLimit), Allow: redactText(d.Allow, nameTextLimit),
	}
	now := what
	now.Count, now.First, now.Last = 1, at, at
	r.pages.Change(tenant, sandbox, true, func(p *recentPage) int {
		list := p.decisions[d.Verdict]
		if list == nil {
			if p.decisions == nil {
				p.decisions = map[egress.Verdict]*recent.List[EgressDecision, EgressDecision]{}
			}
			list = &recent.List[EgressDecision, EgressDecision]{}
			p.decisions[d.Verdict] = list
		}
		if before, again := list.Get(what); again {
			now.Count, now.First = before.Count+1, before.First
		}
		return list.Put(what, now, now.size(), recentDecisions)
	})
}

func (d EgressDecision) size() int {
	return len(d.Host) + len(d.Rule) + len(d.Reason) + len(d.Allow) + len(d.Credential)
}

// newestFirst orders what several lists have, and returns as much of it as is asked for.
func newestFirst[T any](all []T, at func(T) time.Time, limit int) []T {
	slices.SortStableFunc(all, func(a, b T) int { return at(b).Compare(at(a)) })
	return all[:min(len(all), limit)]
}
