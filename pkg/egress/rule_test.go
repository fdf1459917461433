package egress

import (
	"strings"
	"testing"
)

func mustRule(t testing.TB, text string) Rule {
	t.Helper()
	r, err := ParseRule(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func policyOf(t testing.TB, rules ...string) (p Policy) {
	t.Helper()
	for _, r := range rules {
		p.Allow = append(p.Allow, mustRule(t, r))
	}
	return p
}

func TestRulesMatch(t *testing.T) {
	for _, c := range []struct {
		rule, host string
		port       int
		want       bool
	}{
		{"example.com", "example.com", 443, true},
		{"example.com", "example.com", 80, true},
		{"example.com", "example.com", 22, false},
		{"example.com", "EXAMPLE.com.", 443, true},
		{"Example.COM.", "example.com", 443, true},
		{"example.com", "www.example.com", 443, false},
		{"example.com", "notexample.com", 443, false},
		{"example.com", "example.com.evil.test", 443, false},
		{"*.example.com", "www.example.com", 443, true},
		{"*.example.com", "a.b.example.com", 443, true},
		{"*.example.com", "example.com", 443, false},
		{"*.example.com", "notexample.com", 443, false},
		{"*.example.com:8443", "www.example.com", 443, false},
		{"example.com:8443,22", "example.com", 22, true},
		{"example.com:8443,22", "example.com", 443, false},
		{"example.com:*", "example.com", 1, true},
		{"example.com:*", "example.com", 0, false},
		{"example.com:*", "example.com", 65536, false},
		{"bücher.example", "xn--bcher-kva.example", 443, true},
		{"xn--bcher-kva.example", "BÜCHER.example", 443, true},
		{"my_bucket.example", "my_bucket.example", 443, true},
		{"93.184.216.34", "93.184.216.34", 443, true},
		{"93.184.216.34", "::ffff:93.184.216.34", 443, true},
		{"93.184.216.34", "::ffff:5db8:d822", 443, true},
		{"93.184.216.0/24:22", "93.184.216.34", 22, true},
		{"93.184.216.0/24", "93.184.217.34", 443, false},
		{"93.184.216.34", "name.example", 443, false},
		{"2606:2800::1", "[2606:2800:0::1]", 443, true},
		{"[2606:2800::1]:8443", "2606:2800::1", 8443, true},
		{"[2606:2800::/32]:8443", "2606:2800::1", 8443, true},
		{"2606:2800::/32", "2606:2801::1", 443, false},
		{"*", "example.com", 443, true},
		{"*", "93.184.216.34", 443, true},
		{"*:*", "example.com", 25, true},
		{"db.example=10.1.2.3:5432", "db.example", 5432, true},
		{"db.example=10.1.2.3:5432", "10.1.2.3", 5432, false},
		{"db.example=[fd00::1]:5432", "db.example", 5432, true},
		{"db.example=fd00::1", "db.example", 443, true},
	} {
		r := mustRule(t, c.rule)
		if got := r.Matches(c.host, c.port); got != c.want {
			t.Errorf("%s matches %s port %d: %v", c.rule, c.host, c.port, got)
		}
		if again := mustRule(t, r.String()); again.String() != r.String() || again.Matches(c.host, c.port) != c.want {
			t.Errorf("%s is printed as %s, which is another rule", c.rule, r)
		}
	}
	if (Rule{}).Matches("example.com", 443) || (Rule{}).String() != "" {
		t.Error("the zero rule matches")
	}
}

func TestRulesThatAreNone(t *testing.T) {
	for rule, want := range map[string]string{
		"":                          "no host",
		":443":                      "no host",
		"https://example.com":       "not a URL",
		"example.com/path":          "not a CIDR",
		"example.com:":              "must be a port",
		"example.com:0":             "1 to 65535",
		"example.com:65536":         "1 to 65535",
		"example.com:+80":           "1 to 65535",
		"example.com:80,":           "1 to 65535",
		"example.com:https":         "1 to 65535",
		"exa mple.com":              "not a host",
		"example..com":              "not a host",
		"*.":                        "not a host",
		"*.*.example.com":           "not a host",
		"www.*.com":                 "asterisk",
		"*example.com":              "asterisk",
		"*.10.0.0.1":                "neither a name nor an IP",
		"127.1":                     "neither a name nor an IP",
		"0x7f000001":                "neither a name nor an IP",
		"2130706433":                "neither a name nor an IP",
		"0177.0.0.1":                "neither a name nor an IP",
		"10.0.0.1/8":                "bits behind its prefix",
		"10.0.0.0/33":               "not a CIDR",
		"::ffff:10.0.0.0/104":       "own form",
		"fe80::1%eth0":              "zone",
		"[::1":                      "IPv6 address",
		"[127.0.0.1]:80":            "IPv6 address",
		"[::1]80":                   "after the brackets",
		"[::1]:":                    "after the brackets",
		"*.example.com=10.0.0.1":    "whole name",
		"*=10.0.0.1":                "whole name",
		"10.0.0.1=10.0.0.2":         "whole name",
		"db.example=":               "not an IP address",
		"db.example=other.example":  "not an IP address",
		"db.example:80=10.0.0.1":    "not an IP address",
		strings.Repeat("a.", 200):   "too long",
		strings.Repeat("a", 64):     "not a host",
		strings.Repeat("ü", 100000): "too long",
	} {
		_, err := ParseRule(rule)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1200 {
			t.Errorf("%.100q: %v, want %q in it", rule, err, want)
		}
	}
}

func TestHostsInOddForms(t *testing.T) {
	for _, host := range []string{
		"0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "127.1", "127.0.1", "127.0.0.1.", "127.0.0.01",
		"1.2.3.4.5", "256.1.1.1", "١٢٧.0.0.1", "１２７.０.０.１", "127。0。0。1", "①②⑦.0.0.1", "fe80::1%eth0", "fe80::1%25eth0", "[fe80::1%1]", "127.0.0.1%lo",
		"::1%", "[127.0.0.1]", "[::1", "::1]", "[]", "", ".", "..", "a..b", ".a", "a b", "a\x00b", "a\r\nb", "a/b", "a@b", "a#b", "a?b", "a%2eb", "a:b", "0x", "1",
		"\xff.example", "example.com\x00.evil.test",
	} {
		if name, addr, err := canonical(host); err == nil {
			t.Errorf("%q is taken for name %q or address %v", host, name, addr)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, rule := range []string{"example.com", "*.example.com:80,443", "a=10.0.0.1:5", "[fd00::1]:*", "10.0.0.0/8", "bücher.example", "*", "@vscode"} {
		f.Add(rule, "example.com", 443)
	}
	f.Fuzz(func(t *testing.T, text, host string, port int) {
		r, err := ParseRule(text)
		if err != nil {
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q is printed as %q, which is %q, %v", text, r, again, err)
		}
		if again.Matches(host, port) != r.Matches(host, port) {
			t.Fatalf("%q and %q differ on %q", text, r, host)
		}
	})
}
