package gateway

import (
	"context"
	"net/http"
	"slices"
	"time"
)

func (g *Gateway) recentOperations() {
	register(g, http.MethodGet, sandboxRoot+"/audit", "list-audit-records", "List what callers did of late with a sandbox, by this gateway; this does not end its idle time", g.auditRecords)
	register(g, http.MethodGet, sandboxRoot+"/egress/decisions", "list-egress-decisions", "List what a sandbox tried of late to reach by this gateway; this does not end its idle time", g.egressDecisions)
}

// AuditRecord says what a caller did.
type AuditRecord struct {
	ID        string    `json:"id" doc:"the call's X-Request-Id"`
	Time      time.Time `json:"time"`
	Key       string    `json:"key,omitempty" doc:"the name of the caller's key; missing for a link and a public port"`
	Operation string    `json:"operation" doc:"the id of the operation in this document, or that of another protocol"`
	Args      []string  `json:"args,omitempty" nullable:"false" doc:"the command, or the beginning of it, without what looks like a secret"`
	Paths     []string  `json:"paths,omitempty" nullable:"false" doc:"of files, as far as they are kept; of a request to a server, without its query"`
	Port      int       `json:"port,omitempty" doc:"of the server in the sandbox"`
	Method    string    `json:"method,omitempty" doc:"of the request to it"`
	ExecID    string    `json:"exec_id,omitempty" doc:"of the command that it is about"`
	Open      bool      `json:"open,omitempty" doc:"it has not been answered yet"`
	Status    int       `json:"status,omitempty" doc:"of the answer; missing if there was none"`
	Class     string    `json:"class,omitempty" doc:"of the problem with which it ended"`
	Exit      *int      `json:"exit,omitempty" doc:"the exit code of the command that it waited for"`
	In        int64     `json:"in_bytes,omitempty" doc:"of the request"`
	Out       int64     `json:"out_bytes,omitempty" doc:"of the answer"`
	Took      float64   `json:"ms,omitempty" doc:"how long it took"`
}

// EgressDecision says what a sandbox tried to reach, once or several times, and what came of it.
type EgressDecision struct {
	Verdict    string    `json:"verdict" enum:"allowed,denied,failed,noticed" doc:"failed is what was allowed and not reached; noticed is the placeholder of a credential where it is not replaced"`
	Host       string    `json:"host,omitempty" doc:"what was asked for; missing if the connection was not let in"`
	Port       int       `json:"port,omitempty"`
	Protocol   string    `json:"protocol,omitempty" doc:"how it was asked for: connect, http or socks5"`
	Rule       string    `json:"rule,omitempty" doc:"the rule that allowed it, without an address that it pins"`
	Reason     string    `json:"reason,omitempty" doc:"why it was not allowed, or failed"`
	Allow      string    `json:"allow,omitempty" doc:"the rule that would allow what was denied"`
	Credential string    `json:"credential,omitempty" doc:"the name of the credential whose value was put into a request, or whose placeholder was noticed"`
	Count      int       `json:"count" doc:"how many times"`
	First      time.Time `json:"first_at"`
	Last       time.Time `json:"last_at"`
}

// Recent says what a list of what happened has, and what not.
type Recent struct {
	Gateway string    `json:"gateway" doc:"which gateway this is: others know what they did themselves, and a later call may reach another one"`
	Since   time.Time `json:"since" doc:"since when nothing is missing of what this gateway did, but for what is omitted"`
	Omitted int64     `json:"omitted,omitempty" doc:"how many were let go to make room since then"`
}

type auditInput struct {
	ID    string `path:"id" doc:"the sandbox's name"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"how many at most, the newest first"`
	Looks bool   `query:"looks" doc:"also calls that only look, and requests to servers in the sandbox"`
}

type auditOutput struct {
	Body struct {
		Recent
		Records []AuditRecord `json:"records" nullable:"false" doc:"the newest first"`
	}
}

// auditRecords lists what this gateway keeps of the calls. They are the tenant's own.
func (g *Gateway) auditRecords(ctx context.Context, in *auditInput) (*auditOutput, error) {
	if _, err := g.find(ctx, in.ID); err != nil {
		return nil, err
	}
	out := &auditOutput{}
	out.Body.Records, out.Body.Gateway = []AuditRecord{}, g.recently.gateway
	out.Body.Since = g.recently.pages.Look(tenantOf(ctx), in.ID, func(p *recentPage) {
		for _, look := range []bool{false, true} {
			if list := p.actsOf(look); !look || in.Looks {
				out.Body.Records = slices.AppendSeq(out.Body.Records, list.All())
				out.Body.Omitted += list.Omitted()
			}
		}
	}).UTC()
	out.Body.Records = newestFirst(out.Body.Records, func(r AuditRecord) time.Time { return r.Time }, in.Limit)
	return out, nil
}

type decisionsInput struct {
	ID    string `path:"id" doc:"the sandbox's name"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"how many at most, the newest first"`
}

type decisionsOutput struct {
	Body struct {
		Recent
		WayOut    string           `json:"way_out" enum:"here,elsewhere,none" doc:"who lets the sandbox out now: this gateway; another one, which knows what is newer; or none, since its tenant has no egress or it does not run"`
		Decisions []EgressDecision `json:"decisions" nullable:"false" doc:"the newest first"`
	}
}

// egressDecisions lists what this gateway keeps of a sandbox's tries.
func (g *Gateway) egressDecisions(ctx context.Context, in *decisionsInput) (*decisionsOutput, error) {
	s, err := g.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := &decisionsOutput{}
	out.Body.Decisions, out.Body.Gateway, out.Body.WayOut = []EgressDecision{}, g.recently.gateway, "none"
	if mayRun(s) {
		out.Body.WayOut = g.waysOut.where(ctx, s.ID)
	}
	out.Body.Since = g.recently.pages.Look(tenantOf(ctx), in.ID, func(p *recentPage) {
		for _, list := range p.decisions {
			out.Body.Decisions = slices.AppendSeq(out.Body.Decisions, list.All())
			out.Body.Omitted += list.Omitted()
		}
	}).UTC()
	out.Body.Decisions = newestFirst(out.Body.Decisions, func(d EgressDecision) time.Time { return d.Last }, in.Limit)
	return out, nil
}

// where says who lets a sandbox out: here, elsewhere or none.
func (w *waysOut) where(ctx context.Context, id string) string {
	tenant, _, _ := splitID(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.farEnds[id] != nil:
		return "here"
	case w.tenant(tenant).policy(ctx, w.g) != nil:
		return "elsewhere"
	}
	return "none"
}
