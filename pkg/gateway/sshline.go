package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"
)

// sshLine is a line of authorized_keys: a key of a tenant's, or one that signs certificates for
// the tenant.
type sshLine struct {
	tenant               string
	name                 string // its comment, for people, or else the fingerprint
	key                  ssh.PublicKey
	principals           []string // of the certificates that count; nil for a key that is no authority
	expires              time.Time
	from                 []source
	NoTerminals, NoPorts bool
}

// source is an element of from: addresses, or ones that may not call.
type source struct {
	prefix netip.Prefix
	not    bool
}

// parseSSHLine parses a line of authorized_keys. Options that it does not know are errors, since
// they would restrict the key.
func parseSSHLine(tenant, text string) (*sshLine, error) {
	if strings.ContainsAny(text, "\r\n") {
		return nil, errors.New("there is more than one line")
	}
	key, comment, options, _, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%.40q is no line of authorized_keys: %w", text, err)
	}
	if err := checkSSHKey(key); err != nil {
		return nil, err
	}
	l := &sshLine{tenant: tenant, key: key, name: cmp.Or(strings.TrimSpace(comment), ssh.FingerprintSHA256(key))}
	if notText(l.name) {
		return nil, fmt.Errorf("a comment has more than %d bytes, or is not text", nameTextLimit)
	}
	authority := false
	for _, option := range options {
		if strings.EqualFold(option, "cert-authority") {
			authority = true
		} else if err := l.add(option); err != nil {
			return nil, fmt.Errorf("%s: %w", l.name, err)
		}
	}
	if authority != (l.principals != nil) {
		return nil, fmt.Errorf("%s: cert-authority and principals need each other: nobody's name is one of SSH here", l.name)
	}
	return l, nil
}

// add adds an option.
func (l *sshLine) add(option string) (err error) {
	name, value, valued := strings.Cut(option, "=")
	if valued {
		if value, err = withoutQuotes(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	name = strings.ToLower(name)
	if l.restrict(name) && !valued {
		return nil
	}
	switch {
	case name == "principals" && valued:
		l.principals = strings.Split(value, ",")
		if slices.ContainsFunc(l.principals, notText) {
			return errors.New("principals: each has 1 to 256 bytes of text")
		}
	case name == "from" && valued:
		l.from, err = parseFrom(value)
	case name == "expiry-time" && valued:
		l.expires, err = parseExpiry(value)
	default:
		return fmt.Errorf("the option %.40q is not known", name)
	}
	return err
}

// restrict takes the options without a value. Those for what no client gets change nothing.
func (l *sshLine) restrict(name string) bool {
	switch name {
	case "no-pty":
		l.NoTerminals = true
	case "no-port-forwarding":
		l.NoPorts = true
	case "restrict":
		l.NoTerminals, l.NoPorts = true, true
	case "pty":
		l.NoTerminals = false
	case "port-forwarding":
		l.NoPorts = false
	case "no-agent-forwarding", "no-x11-forwarding", "no-user-rc":
	default:
		return false
	}
	return true
}

// withoutQuotes returns the value of an option, which is in double quotes.
func withoutQuotes(value string) (string, error) {
	inner, ok := strings.CutPrefix(value, `"`)
	inner, closed := strings.CutSuffix(inner, `"`)
	if !ok || !closed || strings.ContainsAny(inner, `"\`) {
		return "", errors.New("the value must be in double quotes, without others in it")
	}
	return inner, nil
}

func notText(s string) bool {
	return s == "" || len(s) > nameTextLimit || strings.ContainsFunc(s, unicode.IsControl)
}

// parseFrom parses addresses and ranges of them, with commas between them. Names of hosts are not
// taken: who answers for them in the DNS would decide who may call.
func parseFrom(text string) (all []source, err error) {
	for word := range strings.SplitSeq(text, ",") {
		rest, not := strings.CutPrefix(word, "!")
		prefix, err := parseRange(rest)
		if err != nil {
			return nil, fmt.Errorf("from: %.64q is no address, nor a range such as 10.0.0.0/8", rest)
		}
		all = append(all, source{prefix, not})
	}
	return all, nil
}

func parseRange(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().WithZone("").Prefix(addr.Unmap().BitLen())
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

// allowsFrom reports whether a client may come from an address. One that a ! names may not.
func allowsFrom(all []source, addr netip.Addr) bool {
	addr, found := addr.Unmap().WithZone(""), all == nil
	for _, s := range all {
		if s.prefix.Contains(addr) {
			if s.not {
				return false
			}
			found = true
		}
	}
	return found
}

// parseExpiry parses expiry-time, which must be in UTC, so that it is the same for all gateways.
func parseExpiry(text string) (time.Time, error) {
	for _, layout := range []string{"20060102Z", "200601021504Z", "20060102150405Z"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("expiry-time: %.40q is not YYYYMMDDZ or YYYYMMDDHHMM[SS]Z, in UTC", text)
}

// checkSSHKey refuses keys that are too weak, and those of RSA that take long to check.
func checkSSHKey(key ssh.PublicKey) error {
	if _, ok := sshAlgorithms[key.Type()]; !ok {
		return fmt.Errorf("keys of the type %.40q are not taken", key.Type())
	}
	if size := rsaSize(key); size != 0 && (size < rsaLeast || size > rsaMost) {
		return fmt.Errorf("the RSA key has %d bits, and not %d to %d", size, rsaLeast, rsaMost)
	}
	return nil
}
