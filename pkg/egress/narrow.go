package egress

import (
	"net/netip"
	"slices"
)

// Covers reports whether a rule is within the policy as one of Only is, or one of the hosts of a
// [Secret]: with no other host and no other port. Such a rule names no address, so a name without
// one is covered by a rule that pins it, whose address holds; a rule that pins a name to another
// address is not covered. It is for who wants to be told early; Only holds in any case.
func (p Policy) Covers(r Rule) bool {
	if r.form == noHost || p.Only != nil && !(Policy{Allow: p.Only}).Covers(r) {
		return false
	}
	if r.form == hostSet {
		return !r.anyMember(func(m Rule) bool { return !p.Covers(m) })
	}
	var around []Rule
	for _, o := range p.Allow {
		if o.containsHosts(r) {
			around = append(around, o)
		}
	}
	if r.anyPort {
		return slices.ContainsFunc(around, func(o Rule) bool { return o.anyPort })
	}
	for _, port := range r.portList() {
		if !slices.ContainsFunc(around, func(o Rule) bool { return o.matchesPort(port) }) {
			return false
		}
	}
	return true
}

// portList returns the ports of a rule that has not all.
func (r Rule) portList() []uint16 {
	if len(r.ports) == 0 {
		return defaultPorts
	}
	return r.ports
}

// containsHosts reports whether a rule allows all hosts of another one.
func (r Rule) containsHosts(of Rule) bool {
	switch {
	case r.form == hostSet:
		return r.anyMember(func(m Rule) bool { return m.containsHosts(of) })
	case of.form == addresses:
		return r.containsAddresses(of.prefix)
	case of.pinned.IsValid() && of.pinned != r.pinned:
		return false
	case r.form == anyHost:
		return true
	case of.form == exactName:
		return r.matchesHost(target{name: of.name})
	case of.form == suffix:
		return r.form == suffix && (of.name == r.name || r.matchesHost(target{name: of.name[1:]}))
	}
	return false // it is every host
}

// containsAddresses reports whether a rule allows all addresses of a prefix. Those that are not
// public must be named by both.
func (r Rule) containsAddresses(prefix netip.Prefix) bool {
	within := r.form == addresses && r.prefix.Bits() <= prefix.Bits() && r.prefix.Contains(prefix.Addr())
	special, is := ranges(nil).of(prefix.Addr())
	if is && prefix.Bits() >= special.prefix.Bits() {
		return within && r.prefix.Bits() >= special.prefix.Bits()
	}
	return within || r.form == anyHost
}

// leavesOut reports whether Only keeps a target from what Allow allows.
func (p Policy) leavesOut(t target) bool {
	return p.Only != nil && !slices.ContainsFunc(p.Only, func(r Rule) bool { return r.matchesHost(t) && r.matchesPort(t.port) })
}
