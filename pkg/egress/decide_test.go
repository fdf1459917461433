package egress

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// names is a resolver with one set of answers.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (addrs []netip.Addr, err error) {
	for _, a := range n[strings.TrimSuffix(host, ".")] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, nil
}

func TestAddressesThatAreNotPublic(t *testing.T) {
	own := ranges{netip.MustParsePrefix("20.0.0.0/16"), netip.MustParsePrefix("10.96.0.0/12")}
	for _, c := range []struct{ addr, class string }{
		{"0.0.0.0", "unspecified"},
		{"0.1.2.3", "unspecified"},
		{"::", "unspecified"},
		{"127.0.0.1", "loopback"},
		{"127.255.255.255", "loopback"},
		{"::1", "loopback"},
		{"::ffff:127.0.0.1", "loopback"},
		{"169.254.169.254", "link-local"},
		{"fe80::1", "link-local"},
		{"fe80::1%eth0", "link-local"},
		{"10.1.2.3", "private"},
		{"172.31.0.1", "private"},
		{"192.168.1.1", "private"},
		{"100.100.100.200", "private"},
		{"fd00:ec2::254", "private"},
		{"fec0::1", "private"},
		{"224.0.0.1", "multicast"},
		{"ff02::1", "multicast"},
		{"255.255.255.255", "reserved"},
		{"192.0.0.192", "reserved"},
		{"168.63.129.16", "the cloud's own"},
		{"64:ff9b::7f00:1", "loopback"},
		{"64:ff9b::a9fe:a9fe", "link-local"},
		{"64:ff9b::1400:1", "the cluster's own"},
		{"64:ff9b:1::1", "reserved"},
		{"2002:a00:1::", "private"},
		{"2002:7f00:1::1", "loopback"},
		{"2001:0:1::1", "reserved"},
		{"2001:db8::1", "reserved"},
		{"::7f00:1", "reserved"},
		{"4000::1", "reserved"},
		{"20.0.1.2", "the cluster's own"},
		{"10.100.0.1", "the cluster's own"},
		{"8.8.8.8", ""},
		{"2606:4700::1111", ""},
		{"64:ff9b::808:808", ""},
		{"2002:808:808::1", ""},
		{"172.32.0.1", ""},
		{"100.128.0.1", ""},
	} {
		r, special := own.of(netip.MustParseAddr(c.addr).Unmap())
		if special != (c.class != "") || special && r.class != c.class {
			t.Errorf("%s is %q, %v, want %q", c.addr, r.class, special, c.class)
		}
	}
	if _, special := own.of(netip.Addr{}); !special {
		t.Error("an address that is none is public")
	}
}

// decisionNames are those of the tests of decisions.
var decisionNames = names{
	"public.test":    {"8.8.8.8", "2606:4700::1111"},
	"mixed.test":     {"127.0.0.1", "8.8.8.8", "10.0.0.1", "::ffff:8.8.4.4"},
	"loopback.test":  {"127.0.0.1", "::1"},
	"metadata.test":  {"169.254.169.254"},
	"private.test":   {"10.0.0.1"},
	"mapped.test":    {"::ffff:10.0.0.1"},
	"nat64.test":     {"64:ff9b::a00:1"},
	"zone.test":      {"fe80::1%eth0"},
	"cluster.test":   {"10.96.0.1"},
	"nothing.test":   {},
	"localhost":      {"127.0.0.1"},
	"many.test":      slices.Repeat([]string{"8.8.8.8"}, 1000),
	"db.test":        {"8.8.8.8"}, // what a rule pins is not looked up
	"www.sub.test":   {"8.8.8.8"},
	"kubernetes.svc": {"10.96.0.1"},
}

// decisionCase is what comes of asking for a host: the addresses that may be dialled, or a part of why not.
type decisionCase struct{ rules, host, port, want string }

func checkDecisions(t *testing.T, cases []decisionCase) {
	t.Helper()
	d := dialer{resolver: decisionNames, private: ranges{netip.MustParsePrefix("10.96.0.0/12")}}
	for _, c := range cases {
		target, err := newTarget(c.host, c.port)
		if err != nil {
			t.Fatal(err)
		}
		if got := resolved(t, d, policyOf(t, strings.Fields(c.rules)...), target); got != c.want && (isList(c.want) || !strings.Contains(got, c.want)) {
			t.Errorf("with %q, %v: got %q, want %q", c.rules, target, got, c.want)
		}
	}
}

func TestDecisionsOfRulesThatNameHosts(t *testing.T) {
	checkDecisions(t, []decisionCase{
		{"", "public.test", "443", "no rule allows public.test"},
		{"public.test", "public.test", "443", "8.8.8.8 2606:4700::1111"},
		{"public.test", "public.test", "22", "not with port 22"},
		{"*", "mixed.test", "443", "8.8.8.8 8.8.4.4"},
		{"*", "loopback.test", "443", "resolves to ::1, which is loopback"},
		{"*", "localhost", "443", "127.0.0.1, which is loopback (127.0.0.0/8)"},
		{"*", "metadata.test", "80", "169.254.169.254, which is link-local"},
		{"*", "169.254.169.254", "80", "169.254.169.254 is link-local"},
		{"*", "private.test", "443", "10.0.0.1, which is private"},
		{"*", "mapped.test", "443", "10.0.0.1, which is private"},
		{"*", "nat64.test", "443", "64:ff9b::a00:1, which is private"},
		{"*", "zone.test", "443", "link-local"},
		{"*", "cluster.test", "443", "the cluster's own"},
		{"*", "nothing.test", "443", "has no address"},
		{"*", "many.test", "443", strings.TrimSpace(strings.Repeat("8.8.8.8 ", mostAddresses))},
		{"*.sub.test", "www.sub.test", "443", "8.8.8.8"},
		{"*.sub.test", "sub.test", "443", "no rule allows sub.test"},
	})
}

func TestDecisionsOfRulesThatNameAddresses(t *testing.T) {
	checkDecisions(t, []decisionCase{
		{"* fe80::1", "zone.test", "443", "link-local"},
		{"* 10.0.0.1", "private.test", "443", "10.0.0.1"},
		{"* 10.0.0.1:22", "private.test", "443", "10.0.0.1, which is private"},
		{"* 10.0.0.0/8", "private.test", "443", "10.0.0.1"},
		{"* 10.0.0.0/7", "private.test", "443", "10.0.0.1, which is private"},
		{"* 0.0.0.0/0 ::/0", "private.test", "443", "10.0.0.1, which is private"},
		{"0.0.0.0/0:*", "169.254.169.254", "80", "169.254.169.254 is link-local"},
		{"0.0.0.0/0", "8.8.8.8", "443", "8.8.8.8"},
		{"10.0.0.0/8", "10.0.0.1", "443", "10.0.0.1"},
		{"* 10.0.0.0/8", "cluster.test", "443", "10.96.0.1, which is the cluster's own"},
		{"* 10.96.0.0/16", "cluster.test", "443", "10.96.0.1"},
		{"169.254.169.254:80", "169.254.169.254", "80", "169.254.169.254"},
		{"db.test=10.0.0.1:5432", "db.test", "5432", "10.0.0.1"},
		{"db.test=10.0.0.1:5432 *", "db.test", "443", "8.8.8.8"},
		{"db.test=10.0.0.1 *", "private.test", "443", "10.0.0.1, which is private"},
		{"db.test=10.0.0.1 db.test=10.0.0.2 db.test", "db.test", "443", "10.0.0.1 10.0.0.2"},
	})
}

// isList reports whether a text is of addresses alone.
func isList(text string) bool {
	return !slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		_, err := netip.ParseAddr(word)
		return err != nil
	})
}

// resolved returns the addresses that may be dialled, or the error.
func resolved(t *testing.T, d dialer, p Policy, target target) string {
	g, err := p.grant(target)
	if err != nil {
		return err.Error()
	}
	addrs, err := d.resolve(t.Context(), p, target, g)
	if err != nil {
		return err.Error()
	}
	var text []string
	for _, a := range addrs {
		if !p.stillAllows(target, a, d.private) {
			t.Errorf("%v at %v is allowed, but not still allowed", target, a)
		}
		text = append(text, a.String())
	}
	return strings.Join(text, " ")
}

func TestDenialsTellTheSandboxNoAddress(t *testing.T) {
	d := dialer{resolver: names{"intranet.test": {"10.1.2.3"}}}
	target, _ := newTarget("intranet.test", "443")
	p := policyOf(t, "*", "db.test=10.7.7.7")
	g, err := p.grant(target)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.resolve(t.Context(), p, target, g)
	var r *refusal
	if !errors.As(err, &r) {
		t.Fatalf("got %v", err)
	}
	for _, text := range []string{r.told(), r.wanted(), r.answer().body, r.answer().phrase} {
		if strings.Contains(text, "10.") {
			t.Errorf("the sandbox is told %q", text)
		}
	}
	if !strings.Contains(r.reason, "10.1.2.3") || r.allow != "intranet.test=10.1.2.3:443" {
		t.Errorf("the log says %q, allow %s", r.reason, r.allow)
	}
}
