package e2b

import (
	"cmp"
	"net/http"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/gateway"
)

// Face is E2B's. Its fields must not change while it serves.
type Face struct {
	// Templates are what sandboxes can be made from, by their names. [BaseTemplate] is there in any case.
	Templates map[string]Template

	watchers watchers
	build    sync.Once
	envd     http.Handler // see envdHandler
}

// Template says what a new sandbox is made from: a pool, or an image, which the tenant's policy must
// allow, or else what the gateway makes without being told.
type Template struct{ Pool, Image string }

// BaseTemplate is the template of callers who name none.
const BaseTemplate = "base"

// The headers of E2B's clients.
const (
	headerKey         = "X-Api-Key"
	headerSandbox     = "E2b-Sandbox-Id"
	headerPort        = "E2b-Sandbox-Port"
	headerAccessToken = "X-Access-Token"
	headerTraffic     = "E2b-Traffic-Access-Token"
)

// envdPort is the port at which E2B's clients take envd to be.
const envdPort = 49983

// What the tokens of a sandbox are for: all that clients do, or requests to its ports alone, which visitors
// may send.
const (
	scopeEnvd  = "e2b"
	scopePorts = "e2b ports"
)

// The port of E2B's code interpreter, which there is not, and how the name of its template begins.
const (
	interpreterPort     = 49999
	interpreterTemplate = "code-interpreter-"
)

// Claim implements [gateway.Face]. Requests to envd, and to ports by E2B's headers, name a sandbox; those
// to the control plane have a path of its own.
func (f *Face) Claim(r *http.Request, at gateway.Address) (gateway.Credential, bool) {
	if asksToBring(r, at) || at.Port == 0 && isNameless(r) {
		return gateway.Credential{}, true // see Refuse
	}
	if at.Port == 0 && r.Header.Get(headerSandbox) == "" {
		return gateway.Credential{Token: keyOf(r)}, isControl(r.URL.Path)
	}
	to, ok := addressOf(r, at)
	if !ok {
		return gateway.Credential{}, true // see Refuse
	}
	forInterpreter := at.Port == interpreterPort && r.Header.Get(headerAccessToken) != ""
	if at.Port != 0 && at.Port != envdPort && r.Header.Get(headerTraffic) == "" && !forInterpreter {
		return gateway.Credential{}, false // the gateway's own
	}
	return credentialOf(r, to), true
}

// asksToBring reports whether a browser asks for leave to send a request that would be the face's.
func asksToBring(r *http.Request, at gateway.Address) bool {
	switch {
	case !isPreflight(r):
		return false
	case at.Port == 0:
		return asksFor(r, headerSandbox)
	}
	return asksFor(r, headerTraffic)
}

// addressOf returns that of the server that a request is for: the one of its host, or else of its headers.
func addressOf(r *http.Request, at gateway.Address) (gateway.Address, bool) {
	if at.Port != 0 {
		return at, true
	}
	name, tenant, ok := parseID(r.Header.Get(headerSandbox))
	port, valid := parsePort(cmp.Or(r.Header.Get(headerPort), "49983"))
	return gateway.Address{Tenant: tenant, Sandbox: name, Port: port}, ok && valid
}

// keyOf returns the tenant's key of a request to the control plane.
func keyOf(r *http.Request) string {
	if key := r.Header.Get(headerKey); key != "" {
		return key
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return token
}

// credentialOf returns what a request to a sandbox shows: its token, or what is signed with that.
func credentialOf(r *http.Request, to gateway.Address) gateway.Credential {
	shown := gateway.Credential{Tenant: to.Tenant, Sandbox: to.Sandbox, Scoped: r.Header.Get(headerAccessToken), Scope: scopeEnvd}
	if traffic := r.Header.Get(headerTraffic); shown.Scoped == "" && to.Port != envdPort && traffic != "" {
		shown.Scoped, shown.Scope = traffic, scopePorts
	}
	if shown.Scoped == "" && to.Port == envdPort && r.URL.Path == filesPath && to.Tenant != "" {
		shown.Made = madeBy(r)
	}
	return shown
}

// Serve implements [gateway.Face].
func (f *Face) Serve(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	if c.Sandbox() == "" {
		f.serveControl(w, r, c)
		return
	}
	f.serveSandbox(w, r, c)
}

// Refuse implements [gateway.Face].
func (f *Face) Refuse(w http.ResponseWriter, r *http.Request, why gateway.Failure) {
	if (!isControl(r.URL.Path) || asksFor(r, headerTraffic)) && allowPages(w, r) {
		return // a browser asks before it sends a token
	}
	if isNameless(r) {
		why = gateway.Failure{Status: http.StatusBadRequest, Class: "invalid", Text: "the URL names no sandbox: to have URLs signed, let the client find sandboxes by their hosts, and do not set E2B_SANDBOX_URL"}
	}
	if isConnect(r) {
		if to, ok := addressOf(r, gateway.Address{}); ok {
			r = withSandboxID(r, to)
		}
		refuseConnect(w, r, why)
		return
	}
	writeFailure(w, why)
}
