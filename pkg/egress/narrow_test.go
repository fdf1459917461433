package egress

import (
	"errors"
	"net/netip"
	"testing"
)

func rulesOf(t *testing.T, texts ...string) []Rule {
	t.Helper()
	rules := []Rule{}
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

func TestPolicyCoversOnlyRulesThatAllowNothingMore(t *testing.T) {
	p := Policy{Allow: rulesOf(t, "example.com", "*.example.org:443", "other.test:80", "other.test:443,8443", "db.test=10.0.0.5:5432", "192.168.0.0/16:443", "9.0.0.0/8:*", "0.0.0.0/0:22")}
	for text, want := range map[string]bool{
		"example.com":                true,
		"EXAMPLE.com.:443":           true,
		"example.com:80,443":         true,
		"example.com:8080":           false,
		"example.com:*":              false,
		"www.example.com":            false,
		"*.example.com":              false,
		"a.example.org:443":          true,
		"a.example.org":              false, // it has port 80, too
		"example.org:443":            false,
		"*.a.example.org:443":        true,
		"*.example.org:443":          true,
		"*.ample.org:443":            false,
		"*.org:443":                  false,
		"other.test:80,443,8443":     true,
		"db.test:5432":               true,
		"db.test=10.0.0.5:5432":      true,
		"db.test=10.0.0.6:5432":      false,
		"example.com=10.0.0.5":       false,
		"a.example.org=10.0.0.5:443": false,
		"192.168.1.1:443":            true,
		"192.168.0.0/15:443":         false,
		"9.1.0.0/16:*":               true,
		"9.1.1.1":                    true,
		"8.8.8.8:22":                 true,
		"10.0.0.1:22":                false, // 0.0.0.0/0 means public addresses
		"*:443":                      false,
	} {
		if got := p.Covers(rulesOf(t, text)[0]); got != want {
			t.Errorf("%s is covered: %v, want %v", text, got, want)
		}
	}
	all := Policy{Allow: rulesOf(t, "*:*")}
	for text, want := range map[string]bool{"*": true, "a.test:1": true, "*.test:*": true, "8.8.8.8": true, "10.0.0.1": false, "10.0.0.0/8": false, "a.test=10.0.0.1": false} {
		if got := all.Covers(rulesOf(t, text)[0]); got != want {
			t.Errorf("* covers %s: %v, want %v", text, got, want)
		}
	}
	if all.Covers(Rule{}) {
		t.Error("a rule that is none is covered")
	}
	all.Only = rulesOf(t, "a.test")
	if all.Covers(rulesOf(t, "b.test")[0]) {
		t.Error("a rule is covered that Only leaves out")
	}
}

// A name that is pinned is not looked up, and keeps its address, whatever form of it narrows the policy.
func TestCoveredNameKeepsItsAddress(t *testing.T) {
	allow := rulesOf(t, "db.test=10.0.0.5:5432", "*.org:443", "a.org=10.0.0.6:443")
	for text, want := range map[string]string{
		"db.test:5432": "10.0.0.5", "db.test=10.0.0.5:5432": "10.0.0.5",
		"a.org:443": "10.0.0.6", "*.org:443": "10.0.0.6", "a.org=10.0.0.6:443": "10.0.0.6",
	} {
		only := rulesOf(t, text)
		if !(Policy{Allow: allow}).Covers(only[0]) {
			t.Errorf("%s is not covered", text)
		}
		host := only[0].name
		if only[0].form == suffix {
			host = "a" + host
		}
		to, err := newTarget(host, only[0].portText()[1:])
		if err != nil {
			t.Fatal(err)
		}
		g, err := Policy{Allow: allow, Only: only}.grant(to)
		if err != nil || len(g.pinned) != 1 || g.pinned[0].String() != want {
			t.Errorf("%s narrowed to %s: %v, %v, want %s", host, text, g.pinned, err, want)
		}
	}
}

// What narrows a policy allows nothing by itself, and names no address.
func TestOnlyNarrowsAPolicy(t *testing.T) {
	allow := rulesOf(t, "*:*", "db.test=10.0.0.5:5432")
	for _, test := range []struct {
		only, host string
		port       string
		allowed    bool
	}{
		{"a.test", "a.test", "443", true},
		{"a.test", "a.test", "8443", false},
		{"a.test", "b.test", "443", false},
		{"db.test:5432", "db.test", "5432", true},
		{"10.0.0.7", "10.0.0.7", "443", false},
		{"c.test=10.0.0.7", "c.test", "443", false},
	} {
		p := Policy{Allow: allow, Only: rulesOf(t, test.only)}
		to, err := newTarget(test.host, test.port)
		if err != nil {
			t.Fatal(err)
		}
		g, err := p.grant(to)
		addr := netip.MustParseAddr("10.0.0.7")
		if len(g.pinned) > 0 {
			addr = g.pinned[0]
		} else if to.name == "a.test" {
			addr = netip.MustParseAddr("8.8.8.8")
		}
		if err == nil {
			err = p.checkAddress(addr, to, nil)
		}
		var refused *refusal
		if (err == nil) != test.allowed || err != nil && !errors.As(err, &refused) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	none := Policy{Allow: allow, Only: []Rule{}}
	to, _ := newTarget("a.test", "443")
	if _, err := none.grant(to); err == nil {
		t.Error("a policy that is narrowed to nothing allows a host")
	}
}
