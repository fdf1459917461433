package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// target is what a client asks for: a name or an address, and a port.
type target struct {
	name string     // in ASCII and lower case, without a final dot; "" for an address
	addr netip.Addr // never IPv4 in an IPv6 form, and never with a zone
	port uint16
}

// host returns the name or the address.
func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

func (t target) String() string {
	return net.JoinHostPort(t.host(), strconv.Itoa(int(t.port)))
}

// newTarget returns the target of a host, with or without brackets, and a port.
func newTarget(host, port string) (t target, err error) {
	if t.name, t.addr, err = canonical(host); err != nil {
		return target{}, err
	}
	t.port, err = parsePort(port)
	return t, err
}

// parsePort reads a port in decimal digits.
func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return 0, fmt.Errorf("%.20q is not a port: it must be a number from 1 to 65535", text)
	}
	return uint16(port), nil
}

// canonical returns the one form of a host: a name, or an address. What some program
// would read as an address, and others as a name, is an error.
func canonical(host string) (string, netip.Addr, error) {
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		if addr, err := canonicalAddr(inner); closed && err == nil && strings.Contains(inner, ":") {
			return "", addr, nil
		}
		return "", netip.Addr{}, fmt.Errorf("%.60q is not an IPv6 address in brackets", host)
	}
	if strings.Contains(host, ":") {
		addr, err := canonicalAddr(host)
		return "", addr, err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return "", addr, nil
	}
	name, err := canonicalName(host)
	return name, netip.Addr{}, err
}

// canonicalAddr reads an address. It refuses a zone, which names an interface of
// whoever dials.
func canonicalAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%.60q is not an IP address", text)
	}
	if addr.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%.60q has a zone", text)
	}
	return addr.Unmap(), nil
}

// canonicalName returns a name in ASCII and lower case, without its final dot.
func canonicalName(host string) (string, error) {
	name := strings.TrimSuffix(host, ".")
	if len(name) > 4*maxName {
		return "", errLongName
	}
	if !utf8.ValidString(name) {
		return "", fmt.Errorf("%.60q is not a host", host)
	}
	if !isASCII(name) {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", fmt.Errorf("%.60q is not a host: %w", host, err)
		}
		name = strings.TrimSuffix(ascii, ".")
	}
	name = strings.ToLower(name)
	if len(name) > maxName {
		return "", errLongName
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", fmt.Errorf("%.60q is not a host", host)
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("%.60q is neither a name nor an IP address in its usual form", host)
	}
	return name, nil
}

// maxName is the length of the longest name of the DNS.
const maxName = 253

var errLongName = errors.New("the host's name is too long")

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// isLabel reports whether s can be a part of a name. An underscore can: names that
// exist have it.
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('0' > c || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// isNumber reports whether a name that ends in s would be an IPv4 address for some
// parsers, in octal, hexadecimal or with fewer parts (URL standard, "ends in a number").
func isNumber(s string) bool {
	digits := "0123456789"
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		s, digits = hex, "0123456789abcdef"
	}
	return strings.Trim(s, digits) == ""
}
