package main

import (
	"fmt"
	"strings"
	"testing"
)

// Where ports end and hosts begin is not said by a character of its own.
func TestCredentialsHostsAndPorts(t *testing.T) {
	t.Setenv("TOKEN", "value-of-the-token")
	for text, want := range map[string]string{
		"TOKEN@a.test":        "[a.test]",
		"TOKEN@a.test,b.test": "[a.test b.test]",
		"TOKEN@a.test:443,8443,*.b.test:*,80,10.0.0.1":    "[a.test:443,8443 *.b.test:* 10.0.0.1]",
		"TOKEN@a.test=10.0.0.1:443,8443,[2001:db8::1]:80": "[a.test=10.0.0.1:443,8443 [2001:db8::1]:80]",
		"TOKEN=file:/run/a@b@a.test":                      "[a.test]",
		"TOKEN,prefix=x_,header=A,header=B@a.test":        "[a.test]",
		"TOKEN@443":            `credential TOKEN: host "443": `,
		"TOKEN@a.test,":        `credential TOKEN: host "": `,
		"TOKEN,prefix=@a.test": "credential TOKEN: there are no options but",
		"@a.test":              "NAME in NAME@HOST is not that of a variable",
		"=env:TOKEN@a.test":    "it is not NAME@HOST",
	} {
		s, _, err := parseCredential(text)
		got := fmt.Sprint(s.Hosts)
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
