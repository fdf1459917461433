package egress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Verdict is how a try ended.
type Verdict string

const (
	// Allowed is a connection, or a request, that the policy allowed and that reached
	// the host.
	Allowed Verdict = "allowed"
	// Denied is what the policy, or a check, refused.
	Denied Verdict = "denied"
	// Failed is what was allowed and did not reach the host.
	Failed Verdict = "failed"
	// Noticed is a placeholder of a [Secret] where it is not replaced: somebody may have
	// tried to make use of the secret there.
	Noticed Verdict = "noticed"
)

// Decision tells about one try of the sandbox to reach a host.
type Decision struct {
	Time    time.Time `json:"time"`
	Verdict Verdict   `json:"verdict"`
	// ID is the same in all decisions about one try, and another for each try, also by
	// another far end: it begins at random below 2^48. Of a try that was allowed a check
	// can refuse later what it sends.
	ID uint64 `json:"id"`
	// Host and Port are what was asked for. Host is in its canonical form. If it is no
	// host, it is what the client wrote, up to 100 characters, quoted as in Go. It is "" for
	// a connection that was not admitted.
	Host string `json:"host"`
	Port int    `json:"port,omitempty"`
	// Address is the one that was dialled. It is invalid if none was.
	Address netip.Addr `json:"address,omitzero"`
	// Protocol is connect, http or socks5: how the client asked.
	Protocol string `json:"protocol"`
	// Rule is the rule that allowed the host, "" without one.
	Rule string `json:"rule,omitempty"`
	// Reason says why it was not allowed, or failed.
	Reason string `json:"reason,omitempty"`
	// Allow is the rule that would allow what was denied, "" if none would.
	Allow string `json:"allow,omitempty"`
	// Secret is the name of a secret. If the verdict is Allowed, its value was put into a
	// request, which is told once for a connection, beside what is told of that.
	Secret string `json:"credential,omitempty"`

	public publicTexts
}

// publicTexts are in place of those of a decision that name an address which a host resolves to, or that
// a rule pins; each is empty if the decision's own does not.
type publicTexts struct{ rule, reason, allow string }

// Public returns the decision without the address of the host, and without what names one: as the sandbox,
// and others who are not to find out what names resolve to, may see it.
func (d Decision) Public() Decision {
	d.Address = netip.Addr{}
	d.Rule, d.Reason, d.Allow = cmp.Or(d.public.rule, d.Rule), cmp.Or(d.public.reason, d.Reason), cmp.Or(d.public.allow, d.Allow)
	d.public = publicTexts{}
	return d
}

// The protocols of a [Decision].
const (
	protocolConnect = "connect"
	protocolHTTP    = "http"
	protocolSOCKS5  = "socks5"
)

// refusal is the error of what a policy does not allow.
type refusal struct {
	reason string // for the host's owner
	public string // for the sandbox, if it may not know all of the reason
	allow  string // the rule that would help, "" if none would
	ask    string // the same for the sandbox, if it may not know all of it
	rules  string // what is allowed, for the sandbox
}

func (r *refusal) Error() string { return r.reason }

// wanted returns the rule that the sandbox may ask for.
func (r *refusal) wanted() string { return cmp.Or(r.ask, r.allow) }

// told returns what the sandbox may know of the reason.
func (r *refusal) told() string { return cmp.Or(r.public, r.reason) }

// notNow is the error of what the owner of the proxy does not let in, whatever the policy is.
type notNow struct{ error }

// grant is what a policy allows for a target.
type grant struct {
	rule   Rule         // the first that allows it
	pinned []netip.Addr // what its name resolves to, by the policy
}

// grant returns what allows a target, or a *refusal. It looks up no name: what is not
// allowed reaches no name server.
func (p Policy) grant(t target) (g grant, err error) {
	if p.leavesOut(t) {
		return g, &refusal{reason: t.String() + " is not among what this sandbox is for"}
	}
	byHost := false
	for _, r := range p.Allow {
		if !r.matchesHost(t) {
			continue
		}
		byHost = true
		if !r.matchesPort(t.port) {
			continue
		}
		if g.rule.form == noHost {
			g.rule = r
		}
		if r.pinned.IsValid() {
			g.pinned = append(g.pinned, r.pinned)
		}
	}
	switch {
	case g.rule.form != noHost:
		return g, nil
	case byHost:
		return g, &refusal{reason: fmt.Sprintf("%s is allowed, but not with port %d", t.host(), t.port), allow: t.String(), rules: p.shown()}
	}
	return g, &refusal{reason: "no rule allows " + t.host(), allow: t.String(), rules: p.shown()}
}

// names reports whether the policy names an address of a reserved range, for a target:
// by a rule for the address or for a part of the range, or by pinning the name to it. A
// larger range, such as 0.0.0.0/0, means public addresses.
func (p Policy) names(addr netip.Addr, within netip.Prefix, t target) bool {
	return slices.ContainsFunc(p.Allow, func(r Rule) bool {
		switch {
		case !r.matchesPort(t.port):
			return false
		case r.form == addresses:
			return r.prefix.Contains(addr) && r.prefix.Bits() >= within.Bits()
		}
		return r.matchesHost(t) && r.pinned == addr && addr.IsValid()
	})
}

// checkAddress returns nil if a target that the policy allows may be reached at this
// address, or a *refusal.
func (p Policy) checkAddress(addr netip.Addr, t target, own ranges) error {
	r, special := own.of(addr)
	if !special || addr.Zone() == "" && p.names(addr, r.prefix, t) {
		return nil
	}
	if t.name == "" {
		return &refusal{
			reason: fmt.Sprintf("%v is %s (%v), and no rule names it", addr, r.class, r.prefix),
			allow:  t.String(),
			rules:  p.shown(),
		}
	}
	return &refusal{
		reason: fmt.Sprintf("%s resolves to %v, which is %s (%v), and no rule names it", t.name, addr, r.class, r.prefix),
		public: fmt.Sprintf("%s resolves to an address that is %s, and no rule names it", t.name, r.class),
		allow:  Rule{form: exactName, name: t.name, pinned: addr, ports: []uint16{t.port}}.String(),
		ask:    fmt.Sprintf("%s=ADDRESS:%d", t.name, t.port),
		rules:  p.shown(),
	}
}

// stillAllows reports whether the policy would allow a connection that exists.
func (p Policy) stillAllows(t target, addr netip.Addr, own ranges) bool {
	g, err := p.grant(t)
	if err != nil || len(g.pinned) > 0 && !slices.Contains(g.pinned, addr) {
		return false
	}
	return p.checkAddress(addr, t, own) == nil
}

// shown returns the rules for the sandbox: without pinned addresses, and not more than
// a model wants to read.
func (p Policy) shown() string {
	const most = 40
	var rules []string
	all := p.Allow
	if p.Only != nil {
		all = p.Only
	}
	for _, r := range all {
		if text := r.public(); text != "" && !slices.Contains(rules, text) {
			rules = append(rules, text)
		}
	}
	switch {
	case len(rules) == 0:
		return "nothing"
	case len(rules) > most:
		rules = append(rules[:most], fmt.Sprintf("and %d more", len(rules)-most))
	}
	return strings.Join(rules, " ")
}
