package flagvalue

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/podagent/podagent/pkg/egress"
)

// Rules is a flag that allows a host, or several, with some ports.
type Rules []egress.Rule

func (r *Rules) Type() string { return "HOST[=ADDRESS][:PORT[,PORT...]]" }

func (r *Rules) String() string {
	var texts []string
	for _, rule := range *r {
		texts = append(texts, rule.String())
	}
	return strings.Join(texts, " ")
}

func (r *Rules) Set(s string) error {
	rule, err := egress.ParseRule(s)
	if err != nil {
		return cmp.Or(errors.Unwrap(err), err) // pflag names the rule
	}
	*r = append(*r, rule)
	return nil
}

// RuleList reads rules that commas separate, as the ports of a rule are, too: what is no
// host but a number, or an asterisk, is one more port.
func RuleList(text string) ([]egress.Rule, error) {
	var words []string
	for word := range strings.SplitSeq(text, ",") {
		if _, err := strconv.ParseUint(word, 10, 64); len(words) > 0 && (err == nil || word == "*") {
			words[len(words)-1] += "," + word
			continue
		}
		words = append(words, word)
	}
	var rules Rules
	for _, word := range words {
		if err := rules.Set(word); err != nil {
			return nil, fmt.Errorf("%.300q: %w", word, err)
		}
	}
	return rules, nil
}

// Prefixes is a flag that adds a range of addresses.
type Prefixes []netip.Prefix

func (p *Prefixes) Type() string { return "CIDR" }

func (p *Prefixes) String() string {
	var texts []string
	for _, prefix := range *p {
		texts = append(texts, prefix.String())
	}
	return strings.Join(texts, " ")
}

func (p *Prefixes) Set(s string) error {
	prefix, err := netip.ParsePrefix(s)
	if err != nil || prefix.Addr().Is4In6() {
		return errors.New("it is not a range of addresses, such as 10.96.0.0/12")
	}
	*p = append(*p, prefix.Masked())
	return nil
}

// Ports is a flag that adds a TCP port.
type Ports []uint16

func (p *Ports) Type() string { return "PORT" }

func (p *Ports) String() string {
	var texts []string
	for _, port := range *p {
		texts = append(texts, strconv.Itoa(int(port)))
	}
	return strings.Join(texts, " ")
}

func (p *Ports) Set(s string) error {
	port, err := strconv.ParseUint(s, 10, 16)
	if err != nil || port == 0 {
		return errors.New("it is not a number from 1 to 65535")
	}
	if !slices.Contains(*p, uint16(port)) {
		*p = append(*p, uint16(port))
	}
	return nil
}
