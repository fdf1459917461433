package gateway

import (
	"errors"
	"net/http"
	"strings"
)

// PortRequest says which server in a sandbox gets a request, and how.
type PortRequest struct {
	Sandbox string   // its name
	Port    int      // of the server
	Without []string // names of headers that the server does not get
	// Refuse answers in place of a server that the request was not passed on to.
	Refuse func(http.ResponseWriter, Failure)
}

// ServePort passes a request on to a server in a sandbox, as the gateway does by itself. The server gets no
// tenant's token in Authorization or X-Api-Key.
func (c *Call) ServePort(w http.ResponseWriter, r *http.Request, to PortRequest) {
	fail := func(w http.ResponseWriter, r *http.Request, err error) {
		abandon(r)
		guard(w.Header())
		w.Header().Set("Cache-Control", "no-store")
		stopReading(w, r)
		to.Refuse(w, c.Failure(r.Context(), err))
	}
	err := c.Begin(r.Context(), RouteOperation, to.Sandbox, Detail{Method: r.Method, Paths: []string{r.URL.Path}, Port: to.Port})
	if err != nil {
		fail(w, r, err)
		return
	}
	r = r.Clone(r.Context())
	for _, name := range to.Without {
		r.Header.Del(name)
	}
	c.g.dropTenantTokens(r)
	if b, ok := r.Body.(*patientBody); ok {
		r.Body = b.ReadCloser // which may be silent for as long as the server takes it
	}
	unguard(w.Header())
	t := &target{tenant: c.at.Tenant, name: to.Sandbox, port: to.Port, byHeader: c.at == Address{}, foreign: c.foreign}
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
