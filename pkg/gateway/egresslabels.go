package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// What a create narrows its tenant's way out to is kept with the sandbox, in labels, so that any
// gateway can serve it.

const (
	// labelEgress begins the names of the labels that have the rules, in parts.
	labelEgress = ownLabels + "egress-"
	// egressParts is how many there may be.
	egressParts = 20
)

// setEgress says how commands are kept from ways out that the gateway does not serve, and keeps what
// the way out is narrowed to.
func (o *order) setEgress() error {
	tenants := o.policy.Egress
	if tenants == nil {
		if o.AllowHosts != nil {
			return notAllowed("allow_hosts: there are none that the gateway lets this tenant's sandboxes reach")
		}
		return nil
	}
	o.spec.Egress = tenants.config(o.spec.Egress)
	if err := o.confine(); err != nil || o.AllowHosts == nil {
		return err
	}
	allowed := egress.Policy{Allow: tenants.AllowHosts}
	rules := make([]string, len(o.AllowHosts))
	for i, text := range o.AllowHosts {
		rule, err := egress.ParseRule(text)
		switch {
		case err != nil:
			return invalid("allow_hosts: %v", err)
		case !allowed.Covers(rule):
			return notAllowed("allow_hosts: %q is not allowed: what a sandbox may reach must be within what the tenant's may", text)
		}
		rules[i] = rule.String()
	}
	labels, err := egressLabels(rules)
	if err != nil {
		return err
	}
	all := maps.Clone(o.spec.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	o.spec.Labels = all
	return nil
}

// confine keeps commands from other ways out, if that is asked for.
func (o *order) confine() error {
	way := &o.spec.Egress
	if !o.Confined || way.Require.AtLeast(wayout.Landlock) {
		return nil
	}
	if way.Mode != wayout.Auto && !wayout.Level(way.Mode).AtLeast(wayout.Landlock) {
		return &refusal{http.StatusNotImplemented, "unsupported", fmt.Sprintf("rules for the network are not supported for this tenant: in the mode %s commands of its sandboxes can leave by other ways", way.Mode)}
	}
	way.Require = wayout.Landlock
	return nil
}

// egressLabels returns the labels that have rules.
func egressLabels(rules []string) (map[string]string, error) {
	labels, ok := textLabels(labelEgress, strings.Join(rules, " "), egressParts)
	if !ok {
		return nil, invalid("allow_hosts: the rules are too long: they may have %d bytes in all", egressParts*textPart*3/4)
	}
	return labels, nil
}

// errEgressLabels says that labels were changed by somebody else.
var errEgressLabels = errors.New("the labels with the rules of its way out are broken")

// narrowedTo returns the rules that a sandbox's way out is narrowed to: nil if it is not, and empty if
// to nothing.
func narrowedTo(s launcher.Summary) ([]egress.Rule, error) {
	text, narrowed, err := textIn(s, labelEgress, egressParts)
	switch {
	case err != nil:
		return nil, errEgressLabels
	case !narrowed:
		return nil, nil
	}
	rules := []egress.Rule{}
	for part := range strings.FieldsSeq(text) {
		rule, err := egress.ParseRule(part)
		if err != nil {
			return nil, errEgressLabels
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// allowHosts returns what callers see of it.
func allowHosts(s launcher.Summary) *[]string {
	rules, err := narrowedTo(s)
	if rules == nil && err == nil {
		return nil
	}
	texts := []string{}
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	return &texts
}
