package gateway

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	// egressPart is how much of the base64 a label holds: its 63 bytes must begin and end with a letter
	// or a digit, which others of the alphabet are not. egressParts is how many there may be.
	egressPart  = 61
	egressEdge  = "x"
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
	text := base64.RawURLEncoding.EncodeToString([]byte(strings.Join(rules, " ")))
	parts := slices.Collect(slices.Chunk([]byte(text), egressPart))
	if len(parts) > egressParts {
		return nil, invalid("allow_hosts: the rules are too long: they may have %d bytes in all", egressParts*egressPart*3/4)
	}
	if len(parts) == 0 {
		parts = [][]byte{nil} // no rule is another thing than no narrowing
	}
	labels := map[string]string{}
	for i, part := range parts {
		labels[fmt.Sprintf("%s%02d", labelEgress, i)] = egressEdge + string(part) + egressEdge
	}
	return labels, nil
}

// errEgressLabels says that labels were changed by somebody else.
var errEgressLabels = errors.New("the labels with the rules of its way out are broken")

// narrowedTo returns the rules that a sandbox's way out is narrowed to: nil if it is not, and empty if
// to nothing.
func narrowedTo(s launcher.Summary) ([]egress.Rule, error) {
	var text strings.Builder
	parts := 0
	for ; parts < egressParts; parts++ {
		part, there := s.Labels[fmt.Sprintf("%s%02d", labelEgress, parts)]
		if !there {
			break
		}
		part, begins := strings.CutPrefix(part, egressEdge)
		part, ends := strings.CutSuffix(part, egressEdge)
		if !begins || !ends {
			return nil, errEgressLabels
		}
		text.WriteString(part)
	}
	for name := range s.Labels {
		if parts == 0 && strings.HasPrefix(name, labelEgress) {
			return nil, errEgressLabels
		}
	}
	if parts == 0 {
		return nil, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text.String())
	if err != nil {
		return nil, errEgressLabels
	}
	rules := []egress.Rule{}
	for part := range strings.FieldsSeq(string(decoded)) {
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
