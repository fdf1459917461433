package gateway

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
)

// ServePort passes a request on to a server in a sandbox, as the gateway does by itself. What keeps it
// from that is told by refuse. The server gets neither the headers whose names are given nor a tenant's
// token in Authorization or X-Api-Key.
func (c *Call) ServePort(w http.ResponseWriter, r *http.Request, sandbox string, port int, refuse func(http.ResponseWriter, Failure), without ...string) {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		abandon(r)
		guard(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		stopReading(w, r)
		refuse(w, c.Failure(r.Context(), err))
	}
	err := c.Begin(r.Context(), RouteOperation, sandbox, Detail{Method: r.Method, Paths: []string{r.URL.Path}, Port: port})
	if err != nil {
		fail(w, r, err)
		return
	}
	r = r.Clone(r.Context())
	for _, name := range without {
		r.Header.Del(name)
	}
	c.g.dropTenantTokens(r)
	if b, ok := r.Body.(*patientBody); ok {
		r.Body = b.ReadCloser // which may be silent for as long as the server takes it
	}
	unguard(w.Header())
	t := &target{tenant: c.at.Tenant, name: sandbox, port: port, byHeader: c.at == Server{}}
	defer stopReading(w, r)
	c.g.pass(w, r, t, admission{tenant: c.caller.Tenant, caller: c.caller}, fail)
}

// unguard takes out of a header what guard and serveFace have set: a server says itself what holds for
// its answers.
func unguard(h http.Header) {
	for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cross-Origin-Resource-Policy", "Cache-Control"} {
		h.Del(name)
	}
}

// dropTenantTokens takes tenants' tokens out of a request whose caller is known by something else. What
// cannot be told may be one.
func (g *Gateway) dropTenantTokens(r *http.Request) {
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		for _, value := range r.Header[name] {
			token := value
			if scheme, rest, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "bearer") {
				token = strings.TrimSpace(rest)
			}
			if _, err := g.ask(r, token); !errors.Is(err, ErrUnknownToken) {
				r.Header.Del(name)
				break
			}
		}
	}
}

// dropSandboxTokens takes out of a header what has the form of a token for a sandbox of a tenant.
func dropSandboxTokens(h http.Header, tenant string) {
	for name, values := range h {
		for _, value := range values {
			signature, ok := strings.CutPrefix(value, tenant+separator)
			if _, err := base64.RawURLEncoding.DecodeString(signature); ok && err == nil && len(signature) == scopedLength {
				delete(h, name)
			}
		}
	}
}
