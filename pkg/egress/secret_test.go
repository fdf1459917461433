package egress

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress/internal/trust"
	"github.com/podagent/podagent/pkg/tools/secret"
)

func TestSecretsAreChecked(t *testing.T) {
	for want, change := range map[string]func(*Secret){
		"its name must be":                        func(s *Secret) { s.Name = "a-b" },
		"its name must":                           func(s *Secret) { s.Name = strings.Repeat("a", 65) },
		"cannot be the name":                      func(s *Secret) { s.Env = "A=B" },
		"the variable Path has another":           func(s *Secret) { s.Env = "Path" },
		"the variable LD_PRELOAD has another":     func(s *Secret) { s.Env = "LD_PRELOAD" },
		"not an absolute path":                    func(s *Secret) { s.File = "etc/../x" },
		"its file \"/a/../b\"":                    func(s *Secret) { s.File = "/a/../b" },
		"its prefix":                              func(s *Secret) { s.Prefix = "a b" },
		"shorter than 8 bytes":                    func(s *Secret) { s.Value = []byte("1234567") },
		"longer than 16 KiB":                      func(s *Secret) { s.Value = bytes.Repeat([]byte("x"), maxValue+1) },
		"line break":                              func(s *Secret) { s.Value = []byte("abcdefgh\r\nX: y") },
		"control character":                       func(s *Secret) { s.Value = []byte("abcdefgh\x00") },
		"white space":                             func(s *Secret) { s.Value = []byte("abcdefgh ") },
		"has no hosts":                            func(s *Secret) { s.Hosts = nil },
		"one of its hosts":                        func(s *Secret) { s.Hosts = []Rule{{}} },
		"every host":                              func(s *Secret) { s.Hosts = mustRules(t, theHost, "*:443") },
		"cannot be a header":                      func(s *Secret) { s.Headers = []string{"host"} },
		`"A b" cannot be a header`:                func(s *Secret) { s.Headers = []string{"A b"} },
		"that of another secret, TOKEN":           func(s *Secret) {},
		"the variable TOKEN is that":              func(s *Secret) { s.Name, s.Env = "B", "TOKEN" },
		"the file /run/token is that":             func(s *Secret) { s.Name, s.Env, s.File = "B", "B", "/run/token" },
		`credential "TOKEN": the name TOKEN is t`: func(s *Secret) { s.Env = "B" },
	} {
		first, second := theSecret(t), theSecret(t)
		first.Env, first.File = "TOKEN", "/run/token"
		change(&second)
		_, err := newSecretSet([]Secret{first, second}, []byte("seed"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), theValue) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := newSecretSet(make([]Secret, maxSecrets+1), nil); err == nil {
		t.Error("any number of secrets")
	}
	if set, err := newSecretSet(nil, nil); err != nil || set.placeholders() != nil {
		t.Errorf("without secrets: %v", err)
	}
}

func TestPlaceholdersAreOfTheSeed(t *testing.T) {
	s, prefixed := theSecret(t), theSecret(t)
	prefixed.Prefix = "ghp_"
	one := s.placeholder([]byte("one"))
	if !regexp.MustCompile(`^podagent-secret-TOKEN-[0-9a-f]{32}$`).MatchString(one) {
		t.Error(one)
	}
	if !regexp.MustCompile(`^ghp_[0-9a-zA-Z]{36}$`).MatchString(prefixed.placeholder([]byte("one"))) {
		t.Error(prefixed.placeholder([]byte("one")))
	}
	renamed := s
	renamed.Name = "OTHER"
	if s.placeholder([]byte("one")) != one || s.placeholder([]byte("two")) == one || strings.HasSuffix(renamed.placeholder([]byte("one")), one[len(one)-8:]) {
		t.Error("a placeholder does not depend on seed and name alone")
	}
}

func TestPlaceholdersAreInTheirVariablesAndFiles(t *testing.T) {
	named, filed, both := theSecret(t), theSecret(t), theSecret(t)
	named.Env = "GH_TOKEN"
	filed.Name, filed.File = "FILED", "/run/a"
	both.Name, both.File, both.Env = "BOTH", "/run/b", "B"
	plain := theSecret(t)
	plain.Name = "PLAIN"
	o := newOpened(t, named, filed, both, plain)
	want := []trust.Placeholder{
		{Name: "TOKEN", Env: "GH_TOKEN", Text: o.placeholder("TOKEN")},
		{Name: "FILED", File: "/run/a", Text: o.placeholder("FILED")},
		{Name: "BOTH", Env: "B", File: "/run/b", Text: o.placeholder("BOTH")},
		{Name: "PLAIN", Env: "PLAIN", Text: o.placeholder("PLAIN")},
	}
	if got := o.secrets.placeholders(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestValuesOfSecretsAreNotPrinted(t *testing.T) {
	secrets := []Secret{theSecret(t)}
	secrets[0].Value = []byte("hunter22")
	set, err := newSecretSet(secrets, []byte("seed"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, v := range []any{secrets, &secrets[0], struct{ Secrets []Secret }{secrets}, set, set.all[0], newMask(set.all).Hold(), &tlsOpener{secrets: set}} {
		fmt.Fprintf(&all, "%v %+v %#v %s %q %x %d\n", v, v, v, v, v, v, v)
		slog.New(slog.NewTextHandler(&all, nil)).Info("", "v", v)
		slog.New(slog.NewJSONHandler(&all, nil)).Info("", "v", v)
		if data, err := json.Marshal(v); err == nil {
			all.Write(data)
		}
	}
	for _, shown := range []string{"hunter22", fmt.Sprintf("%x", "hunter22"), fmt.Sprint([]byte("hunter22"))} {
		if strings.Contains(all.String(), shown) {
			t.Errorf("%q is shown:\n%s", shown, &all)
		}
	}
}

// FuzzHeaders puts a secret into headers of all kinds: it goes nowhere but to where its
// placeholder was, and what is not about it stays.
func FuzzHeaders(f *testing.F) {
	o := newOpened(f, theSecret(f), Secret{Name: "OTHER", Value: []byte("the-other-value"), Hosts: mustRules(f, otherHost)})
	p, bound := o.placeholder("TOKEN"), o.secrets.boundTo(theHost, 443)
	f.Add("Authorization", "Bearer @")
	f.Add("Authorization", "Basic bWU6QA==")
	f.Add("X", "@@ @")
	f.Add("Range", "@")
	f.Add("Authorization", "basic  =@")
	f.Fuzz(func(t *testing.T, name, text string) {
		name = http.CanonicalHeaderKey(name)
		value := strings.ReplaceAll(text, "@", p)
		if scheme, decoded, ok := cutBasic(text); ok {
			value = scheme + base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(decoded, "@", p)))
		}
		header := http.Header{name: {value, "fixed"}}
		done, err := o.secrets.putInto(header, bound)
		got := header[name][0]
		switch {
		case err != nil && strings.Count(value+text, p) <= maxPut/2 && strings.Count(text, "@") <= maxPut/2 && !strings.Contains(strings.ToLower(text), "basic"):
			t.Fatal(err)
		case header[name][1] != "fixed" || len(header) != 1:
			t.Fatalf("the header is %q", header)
		case done.count == 0 && got != value:
			t.Fatalf("%q became %q", value, got)
		case done.count > 0 && !bound[0].goesInto(name):
			t.Fatalf("%s got the secret", name)
		}
		if _, decoded, ok := cutBasic(value); ok {
			_, got, _ = cutBasic(got)
			value = decoded
		}
		if back := strings.ReplaceAll(got, theValue, p); err == nil && back != strings.ReplaceAll(value, theValue, p) {
			t.Fatalf("%q became %q", value, got)
		}
	})
}

func TestSecretsComeFromProviders(t *testing.T) {
	given := theSecret(t)
	given.Value = nil
	s, err := given.Resolve(t.Context(), secret.Static("a=value=of=it"))
	if err != nil || string(s.Value) != "a=value=of=it" || s.Name != given.Name {
		t.Errorf("%q, %v", s.Value, err)
	}
	if value, err := s.Provider().Secret(t.Context()); err != nil || value != "a=value=of=it" {
		t.Errorf("%q, %v", value, err)
	}
	if _, err := given.Resolve(t.Context(), secret.Env("NO_SUCH_VARIABLE_OF_THIS_TEST")); err == nil || !strings.Contains(err.Error(), "TOKEN") {
		t.Error(err)
	}
}
