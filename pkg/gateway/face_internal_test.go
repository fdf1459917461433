package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// scopedCall lets a request in by a token for a sandbox, and returns its context.
func scopedCall(t *testing.T, g *Gateway, shown Credential) (context.Context, func()) {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	c, err := g.callBy(r, shown)
	if err != nil {
		t.Fatal(err)
	}
	_, r, end, err := g.letInBy(httptest.NewRecorder(), r, c.by, c.caller)
	if err != nil {
		t.Fatal(err)
	}
	return r.Context(), end
}

// tokenFor returns the token for a sandbox of who has the token a.
func tokenFor(t *testing.T, g *Gateway, sandbox string) string {
	t.Helper()
	c, err := g.callBy(httptest.NewRequest("GET", "/", nil), Credential{Token: "a"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.SandboxToken(sandbox, "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestCallByATokenForASandboxEndsWithTheTenantsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		write(t, path, keyOfA+forOne)
		g := New(Options{Tenants: &Keys{Path: path}})
		token := tokenFor(t, g, "job")
		byToken, end := scopedCall(t, g, Credential{Sandbox: "job", Scoped: token})
		c, err := g.callBy(httptest.NewRequest("GET", "/", nil), Credential{Sandbox: "job", Scoped: token})
		if err != nil {
			t.Fatal(err)
		}
		after, stop := c.Lasting(t.Context())
		defer stop()
		bySignature, endOther := scopedCall(t, g, Credential{Tenant: "acme", Sandbox: "job", Made: func(made string) bool { return made == token }})
		t.Cleanup(func() {
			end()
			endOther()
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(19 * time.Second)
		if byToken.Err() != nil || bySignature.Err() != nil || after.Err() != nil {
			t.Fatalf("they ended before: %v, %v, %v", context.Cause(byToken), context.Cause(bySignature), context.Cause(after))
		}
		time.Sleep(1*time.Second + 2*askInterval)
		if !errors.Is(context.Cause(byToken), ErrUnknownToken) || !errors.Is(context.Cause(bySignature), ErrUnknownToken) {
			t.Errorf("they ended because of %v, %v", context.Cause(byToken), context.Cause(bySignature))
		}
		if !errors.Is(context.Cause(after), ErrUnknownToken) {
			t.Errorf("what went on after a call ended because of %v", context.Cause(after))
		}
		if _, err := g.callBy(httptest.NewRequest("GET", "/", nil), Credential{Sandbox: "job", Scoped: token}); !errors.Is(err, errStale) {
			t.Errorf("a new call: %v", err)
		}
	})
}

func TestTenantThatThereIsNotTakesAsLong(t *testing.T) {
	g := New(Options{Tenants: OneTenant{Name: "acme", Token: "a"}})
	defer g.Close()
	for _, tenant := range []string{"acme", "missing"} {
		asked := 0
		shown := Credential{Tenant: tenant, Sandbox: "job", Made: func(string) bool { asked++; return tenant == "missing" }}
		if _, err := g.callBy(httptest.NewRequest("GET", "/", nil), shown); !errors.Is(err, errStale) || asked != 1 {
			t.Errorf("%s: asked %d times, %v", tenant, asked, err)
		}
	}
}

func TestWhoHasATokenForASandbox(t *testing.T) {
	for name, tenants := range map[string]Tenants{"of one tenant": OneTenant{Name: "acme", Token: "a"}, "of others": unlisted{}} {
		g := New(Options{Tenants: tenants})
		defer g.Close()
		c, err := g.callBy(httptest.NewRequest("GET", "/", nil), Credential{Token: "a"})
		if err != nil {
			t.Fatal(err)
		}
		token, err := c.SandboxToken("job", "")
		if _, known := tenants.(keyring); !known {
			if !errors.Is(err, errNoSandboxToken) {
				t.Errorf("%s: %q, %v", name, token, err)
			}
			_, err = g.callBy(httptest.NewRequest("GET", "/", nil), Credential{Sandbox: "job", Scoped: "acme.x"})
			if p := problemOf(g.problem(t.Context(), err)); p.Status != http.StatusUnauthorized {
				t.Errorf("%s: a token that nobody made: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c, err = g.callBy(httptest.NewRequest("GET", "/", nil), Credential{Sandbox: "job", Scoped: token})
		if err != nil || c.Tenant() != "acme" || c.Sandbox() != "job" {
			t.Fatalf("%s: %v", name, err)
		}
		if err := c.Remove(t.Context(), "other"); err == nil {
			t.Errorf("%s: it removes another sandbox", name)
		}
		if _, err := c.List(t.Context()); err == nil {
			t.Errorf("%s: it lists sandboxes", name)
		}
		if _, _, err := c.Create(t.Context(), NewSandbox{}); err == nil {
			t.Errorf("%s: it makes sandboxes", name)
		}
	}
}

// unlisted are tenants whose tokens nobody knows the digests of.
type unlisted struct{}

func (unlisted) Caller(context.Context, string) (Caller, error) { return Caller{Tenant: "acme"}, nil }
func (unlisted) Policy(context.Context, string) (Policy, error) { return Policy{}, nil }
