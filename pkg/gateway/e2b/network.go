package e2b

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
)

// networkRequest is what a create asks of the network. What asks for something that there is not is kept as
// it came.
type networkRequest struct {
	AllowOut []string                   `json:"allowOut"`
	DenyOut  []string                   `json:"denyOut"`
	Rules    map[string]json.RawMessage `json:"rules"`
	Proxy    json.RawMessage            `json:"egressProxy"`
	Public   *bool                      `json:"allowPublicTraffic"`
	Host     *string                    `json:"maskRequestHost"`
	HTTPS    []int                      `json:"httpsPorts"`
}

// everywhere is what E2B calls ALL_TRAFFIC. Of IPv6 that is everywhereV6, which clients may add.
const everywhere, everywhereV6 = "0.0.0.0/0", "::/0"

// unserved returns the first field that asks for what there is not; "" if none does.
func (n *networkRequest) unserved() string {
	switch {
	case n == nil:
		return ""
	case len(n.Rules) > 0:
		return "network.rules"
	case asked(n.Proxy):
		return "network.egressProxy"
	case n.Host != nil:
		return "network.maskRequestHost"
	case len(n.HTTPS) > 0:
		return "network.httpsPorts"
	case len(n.DenyOut) > 0 && !slices.Contains(n.DenyOut, everywhere) || slices.ContainsFunc(n.DenyOut, isSomewhere):
		return "network.denyOut of anything but " + everywhere // policies only allow
	}
	return ""
}

func isSomewhere(to string) bool { return to != everywhere && to != everywhereV6 }

// only returns the hosts that a create leaves to the sandbox; false if it leaves it all that the tenant's reach.
// As with E2B, what is allowed precedes what is denied.
func (in *createRequest) only() (hosts []string, narrowed bool) {
	denied := in.Internet != nil && !*in.Internet
	if n := in.Network; n != nil {
		hosts = n.AllowOut
		denied = denied || len(n.DenyOut) > 0
	}
	if slices.Contains(hosts, everywhere) {
		return nil, false
	}
	return hosts, denied || len(hosts) > 0
}

// narrow has the sandbox reach no more than a create says, by rules within those of its tenant, and by no other
// way: users of E2B rely on that.
func (c *control) narrow(o *gateway.NewSandbox, in *createRequest) error {
	hosts, narrowed := in.only()
	if !narrowed {
		return nil
	}
	tenants, err := c.Egress(c.r.Context())
	switch {
	case err != nil:
		return err
	case tenants == nil:
		return gateway.Fail(http.StatusNotImplemented, "unsupported", "allow_internet_access: false and network are not supported by this gateway for this tenant: it has no egress")
	}
	o.AllowHosts, o.Confined = []string{}, true
	allowed := egress.Policy{Allow: tenants.AllowHosts}
	for _, host := range hosts {
		rule, err := ruleOf(host, allowed)
		if err != nil {
			return err
		}
		o.AllowHosts = append(o.AllowHosts, rule)
	}
	return nil
}

// ruleOf returns the rule for a host of a create. An address has all ports, as far as the tenant's rules do.
func ruleOf(host string, allowed egress.Policy) (string, error) {
	rule, err := egress.ParseRule(host)
	if err != nil {
		return "", faces.BadRequest("network.allowOut: %v", err)
	}
	if isAddress(host) {
		if all, err := egress.ParseRule(bracketed(host) + anyPort); err == nil && allowed.Covers(all) {
			return all.String(), nil
		}
	}
	if !allowed.Covers(rule) {
		return "", gateway.Fail(http.StatusForbidden, "not_allowed", fmt.Sprintf("network.allowOut: %.300q is not allowed: what a sandbox may reach must be within what the tenant's may", host))
	}
	return rule.String(), nil
}

const anyPort = ":*"

// bracketed returns an address as it stands before a port.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// isAddress reports whether a host is an IP address, or a range of them, without ports.
func isAddress(host string) bool {
	_, wrong := netip.ParseAddr(host)
	_, none := netip.ParsePrefix(host)
	return wrong == nil || none == nil
}

// network is what a sandbox may reach, and who may reach its servers, as a get has it.
type network struct {
	AllowOut []string `json:"allowOut,omitempty"`
	DenyOut  []string `json:"denyOut,omitempty"`
	Public   bool     `json:"allowPublicTraffic"`
}

func networkOf(s *gateway.Sandbox) (n network) {
	n.Public = s.AllPublic
	if s.AllowHosts == nil {
		return n
	}
	n.DenyOut = []string{everywhere}
	for _, rule := range *s.AllowHosts {
		if host, all := strings.CutSuffix(rule, anyPort); all && isAddress(strings.Trim(host, "[]")) {
			rule = strings.Trim(host, "[]")
		}
		n.AllowOut = append(n.AllowOut, rule)
	}
	return n
}
