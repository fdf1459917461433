package agentsandbox

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
)

// Face is agent-sandbox's router, and the runtimes behind it, as a face of a gateway.
type Face struct {
	// Namespace is that of the gateway's sandboxes. A request that names another one, which is not its
	// tenant's name either, finds nothing. Empty means that there are no namespaces: any counts.
	Namespace string

	senders stdin.Senders
}

var _ gateway.HeaderFace = (*Face)(nil)

// The headers of agent-sandbox's router.
const (
	headerID        = "X-Sandbox-Id"
	headerNamespace = "X-Sandbox-Namespace"
	headerPort      = "X-Sandbox-Port"
	headerUID       = "X-Sandbox-Uid"
	headerPodIP     = "X-Sandbox-Pod-Ip"
	headerTimeout   = "X-Sandbox-Timeout"
)

// pathPrefix begins the paths of requests whose client sends no headers: PREFIX/NAMESPACE/ID/PORT/...
const pathPrefix = "/agent-sandbox/"

// ClaimNamed implements [gateway.HeaderFace]. A request with a header of the gateway's own for such requests
// is none of agent-sandbox's clients.
func (*Face) ClaimNamed(r *http.Request) (gateway.Credential, bool) {
	for _, own := range []string{"X-Sandbox-Token", "X-Sandbox-Link"} {
		if r.Header[own] != nil {
			return gateway.Credential{}, false
		}
	}
	return credentialOf(r), true
}

// Claim implements [gateway.Face].
func (*Face) Claim(r *http.Request, at gateway.Address) (gateway.Credential, bool) {
	return credentialOf(r), at == gateway.Address{} && strings.HasPrefix(r.URL.Path, pathPrefix)
}

// credentialOf returns the tenant's key that a request shows, as a bearer token or as a password, which
// clients send that have it in their URL. What a browser sends may be another page's doing: a password
// that it knows goes along with any request.
func credentialOf(r *http.Request) gateway.Credential {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case isFromBrowser(r):
	case strings.EqualFold(scheme, "bearer"):
		return gateway.Credential{Token: strings.TrimSpace(value)}
	case strings.EqualFold(scheme, "basic"):
		if text, err := base64.StdEncoding.DecodeString(value); err == nil {
			_, password, _ := strings.Cut(string(text), ":")
			return gateway.Credential{Token: password}
		}
	}
	return gateway.Credential{}
}

func isFromBrowser(r *http.Request) bool {
	return r.Header["Sec-Fetch-Site"] != nil || r.Header["Origin"] != nil
}

// Serve implements [gateway.Face].
func (f *Face) Serve(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	to, err := f.routeOf(r, c.Tenant())
	if err != nil {
		to.toldFailed(r.Context(), c, "none")
		refuse(w, r, to, c.Failure(r.Context(), err))
		return
	}
	c.AllowForeign(to.uid)
	r, end := to.within(r)
	defer end()
	switch {
	case !to.isRuntime():
		c.ServePort(w, r, gateway.PortRequest{
			Sandbox: to.id, Port: to.port, Without: []string{"Authorization", headerUID, headerPodIP, headerTimeout},
			Refuse: func(w http.ResponseWriter, why gateway.Failure) { refuse(w, r, to, why) },
		})
	case isGRPC(r):
		f.serveGRPC(w, r, c, to)
	default:
		serveHTTP(w, r, c, to)
	}
}

// Refuse implements [gateway.Face].
func (f *Face) Refuse(w http.ResponseWriter, r *http.Request, why gateway.Failure) {
	if why.Status == http.StatusUnauthorized && isFromBrowser(r) {
		why.Status, why.Text = http.StatusForbidden, "browsers reach a server in a sandbox by its own host alone, and nothing else here"
	}
	to, _ := f.routeOf(r, "")
	refuse(w, r, to, why)
}
