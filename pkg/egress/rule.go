package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Policy says what a sandbox may reach. The zero value allows nothing.
type Policy struct {
	// Allow has the rules. What none of them allows is refused.
	Allow []Rule
	// Only, unless nil, narrows this: a host and port must match one of these, too. They allow
	// nothing by themselves, and neither name an address nor pin one.
	Only []Rule
}

func (p Policy) clone() Policy {
	return Policy{Allow: slices.Clone(p.Allow), Only: slices.Clone(p.Only)}
}

// Rule allows a host, or several, with some ports. The zero value allows nothing.
// [ParseRule] makes rules.
type Rule struct {
	form    form
	name    string       // exactName: the name; suffix: what names end in, with its dot; hostSet: its name
	prefix  netip.Prefix // addresses
	pinned  netip.Addr   // exactName: what it resolves to, if valid
	anyPort bool
	ports   []uint16 // sorted; if empty and not anyPort, the default
}

// form says what a rule's host is.
type form uint8

const (
	noHost    form = iota
	exactName      // a name
	suffix         // *.name
	addresses      // an address or a CIDR
	anyHost        // *
	hostSet        // @name: the hosts of namedHosts
)

// defaultPorts are those of a rule that has none: of http and of https.
var defaultPorts = []uint16{80, 443}

// ParseRule reads a rule: HOST[=ADDRESS][:PORT[,PORT...]], or @NAME, which allows all hosts
// that have this name together ([RuleNames]), by port 443.
//
// HOST is a name, *.NAME (all names that end in .NAME, not NAME itself), an IP address,
// a CIDR, or * (all names, and all public addresses). In front of a port an IPv6
// address or CIDR is in brackets. PORT is a number, or * for all of them; without any
// they are 80 and 443. With =ADDRESS the name, which must be a whole one, resolves to
// that address and to no other.
func ParseRule(text string) (Rule, error) {
	r, err := parseRule(text)
	if err != nil {
		return Rule{}, fmt.Errorf("rule %.300q: %w", text, err)
	}
	return r, nil
}

func parseRule(text string) (r Rule, err error) {
	if strings.Contains(text, "://") {
		return r, fmt.Errorf("it must be HOST[=ADDRESS][:PORT[,PORT...]], not a URL")
	}
	if name, is := strings.CutPrefix(text, "@"); is {
		return r, r.parseNamed(name)
	}
	name, pinned, hasPinned := strings.Cut(text, "=")
	last := &name
	if hasPinned {
		last = &pinned
	}
	var ports string
	if *last, ports, err = splitPorts(*last); err != nil {
		return r, err
	}
	if err := r.parseHost(name); err != nil {
		return r, err
	}
	if hasPinned {
		if err := r.pin(pinned); err != nil {
			return r, err
		}
	}
	return r, r.parsePorts(ports)
}

// splitPorts returns a host without brackets, and the ports after it, "" without any.
func splitPorts(text string) (host, ports string, err error) {
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		host, rest, closed := strings.Cut(inner, "]")
		if !closed || !strings.Contains(host, ":") {
			return "", "", fmt.Errorf("in brackets there must be an IPv6 address")
		}
		if rest == "" {
			return host, "", nil
		}
		ports, hasPorts := strings.CutPrefix(rest, ":")
		if !hasPorts || ports == "" {
			return "", "", fmt.Errorf("after the brackets there must be :PORT, not %q", rest)
		}
		return host, ports, nil
	}
	if strings.Count(text, ":") > 1 {
		return text, "", nil // an IPv6 address
	}
	host, ports, hasPorts := strings.Cut(text, ":")
	if hasPorts && ports == "" {
		return "", "", fmt.Errorf("after the colon there must be a port")
	}
	return host, ports, nil
}

func (r *Rule) parseHost(text string) error {
	name, isSuffix := strings.CutPrefix(text, "*.")
	switch {
	case text == "":
		return fmt.Errorf("it has no host")
	case strings.Contains(text, ","):
		return fmt.Errorf("it has one host: write a rule for each")
	case text == "*":
		r.form = anyHost
		return nil
	case isSuffix:
		r.form = suffix
		name, err := canonicalName(name)
		r.name = "." + name
		return err
	case strings.Contains(text, "*"):
		return fmt.Errorf("an asterisk stands for the whole host, or for its first parts, as in *.example.com")
	case strings.Contains(text, "/"):
		r.form = addresses
		return r.parseCIDR(text)
	}
	name, addr, err := canonical(text)
	if err != nil {
		return err
	}
	if r.form, r.name = exactName, name; name == "" {
		r.form, r.prefix = addresses, netip.PrefixFrom(addr, addr.BitLen())
	}
	return nil
}

func (r *Rule) parseCIDR(text string) error {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("%q is not a CIDR", text)
	}
	if prefix.Addr().Is4In6() {
		return fmt.Errorf("write IPv4 addresses in their own form")
	}
	if masked := prefix.Masked(); masked != prefix {
		return fmt.Errorf("%q has bits behind its prefix: is it %v, or the address alone?", text, masked)
	}
	r.prefix = prefix
	return nil
}

func (r *Rule) pin(text string) error {
	if r.form != exactName {
		return fmt.Errorf("only a whole name can have =ADDRESS")
	}
	addr, err := canonicalAddr(text)
	r.pinned = addr
	return err
}

func (r *Rule) parsePorts(text string) error {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		if part == "*" {
			r.anyPort = true
			continue
		}
		port, err := parsePort(part)
		if err != nil {
			return err
		}
		r.ports = append(r.ports, port)
	}
	slices.Sort(r.ports)
	r.ports = slices.Compact(r.ports)
	return nil
}

// String returns the rule as [ParseRule] reads it.
func (r Rule) String() string { return r.text(r.pinned.IsValid()) }

// public returns the rule without the address that it pins, for the sandbox.
func (r Rule) public() string { return r.text(false) }

func (r Rule) text(pinned bool) string {
	var host string
	switch r.form {
	case noHost:
		return ""
	case exactName:
		host = r.name
	case suffix:
		host = "*" + r.name
	case anyHost:
		host = "*"
	case hostSet:
		return "@" + r.name
	case addresses:
		if host = r.prefix.String(); r.prefix.IsSingleIP() {
			host = r.prefix.Addr().String()
		}
	}
	ports := r.portText()
	last := host
	if pinned {
		host, last = host+"=", r.pinned.String()
	} else {
		host = ""
	}
	if ports != "" && strings.Contains(last, ":") {
		last = "[" + last + "]"
	}
	return host + last + ports
}

func (r Rule) portText() string {
	if r.anyPort {
		return ":*"
	}
	if len(r.ports) == 0 {
		return ""
	}
	ports := make([]string, len(r.ports))
	for i, port := range r.ports {
		ports[i] = strconv.Itoa(int(port))
	}
	return ":" + strings.Join(ports, ",")
}

// MarshalText returns what String returns.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what [ParseRule] reads.
func (r *Rule) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRule(string(text))
	return err
}

// Matches reports whether the rule allows a host, in any form, with a port. It does not
// look at what a name resolves to.
func (r Rule) Matches(host string, port int) bool {
	t, err := newTarget(host, strconv.Itoa(port))
	return err == nil && r.matchesHost(t) && r.matchesPort(t.port)
}

func (r Rule) matchesHost(t target) bool {
	switch r.form {
	case exactName:
		return t.name == r.name
	case suffix:
		return len(t.name) > len(r.name) && strings.HasSuffix(t.name, r.name)
	case addresses:
		return r.prefix.Contains(t.addr) // no address that is not valid
	case hostSet:
		return r.anyMember(func(m Rule) bool { return m.matchesHost(t) })
	}
	return r.form == anyHost
}

func (r Rule) matchesPort(port uint16) bool {
	if r.anyPort {
		return true
	}
	if len(r.ports) == 0 {
		return slices.Contains(defaultPorts, port)
	}
	return slices.Contains(r.ports, port)
}
