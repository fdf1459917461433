package egress

import "net/netip"

// reserved is a range of addresses that are not the public network's.
type reserved struct {
	prefix netip.Prefix
	class  string
}

// reservedRanges are those of IANA's registries of special addresses, and Azure's
// address of a machine's own services, which looks public. IPv6 outside of 2000::/3 is
// reserved as a whole.
var reservedRanges = []reserved{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "private"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the cloud's own"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "reserved"},
	{netip.MustParsePrefix("192.88.99.0/24"), "reserved"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "reserved"},
	{netip.MustParsePrefix("198.51.100.0/24"), "reserved"},
	{netip.MustParsePrefix("203.0.113.0/24"), "reserved"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "reserved"}, // Teredo, too
	{netip.MustParsePrefix("2001:db8::/32"), "reserved"},
	{netip.MustParsePrefix("3fff::/20"), "reserved"},
}

var (
	public6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4  = netip.MustParsePrefix("2002::/16")
)

// clusterClass is the class of the ranges in Options.Private.
const clusterClass = "the cluster's own"

// ranges finds out which addresses are not public.
type ranges []netip.Prefix // of the cluster, beside reservedRanges

// of returns the smallest range with an address that is not public, and false for a
// public address. An address that carries another one, of IPv4, is what that one is.
func (own ranges) of(addr netip.Addr) (found reserved, special bool) {
	addr = addr.WithZone("") // no range has addresses with a zone
	for _, prefix := range own {
		if prefix.Contains(addr) && prefix.Bits() >= found.prefix.Bits() {
			found, special = reserved{prefix, clusterClass}, true
		}
	}
	for _, r := range reservedRanges {
		if r.prefix.Contains(addr) && (!special || r.prefix.Bits() > found.prefix.Bits()) {
			found, special = r, true
		}
	}
	if special {
		return found, true
	}
	if carried, outer := carriedBy(addr); carried.IsValid() {
		inner, special := own.of(carried)
		return reserved{outer, inner.class}, special
	}
	if !addr.IsValid() || addr.Is6() && !public6.Contains(addr) {
		return reserved{netip.PrefixFrom(addr, addr.BitLen()), "reserved"}, true
	}
	return reserved{}, false
}

// carriedBy returns the IPv4 address in one of NAT64 or 6to4, and their range.
func carriedBy(addr netip.Addr) (netip.Addr, netip.Prefix) {
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:])), nat64
	case sixTo4.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), sixTo4
	}
	return netip.Addr{}, netip.Prefix{}
}
