package gateway

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/launcher"
)

const (
	// headerToken has the gateway's token where Authorization is the server's own.
	headerToken = "X-Sandbox-Token"
	// headerLink has the token of a link, for programs.
	headerLink = "X-Sandbox-Link"
	// queryLink is the parameter of a link that has its token.
	queryLink = "podagent_link"
	// cookiePrefix is that of the gateway's cookies. A browser takes a cookie whose name begins
	// with __Host- from its host alone, so that no other sandbox can set it (RFC 6265bis).
	cookiePrefix = "__Host-podagent"
	cookieLink   = cookiePrefix + "-link"
)

// admission says by what right a request passes.
type admission struct {
	tenant string
	caller Caller // zero for a link, and for a port that is public
	token  string // by which the caller is known
	// authorization says that this header has a token of the gateway.
	authorization bool
	public        bool
	link          linkToken // that let it pass
	// followed says that a browser has followed a link: it gets a cookie first.
	followed bool
}

var (
	errStranger = &refusal{http.StatusUnauthorized, "unauthenticated", "this takes a token of the gateway in Authorization or X-Sandbox-Token, or a link that is valid, unless the port is public"}
	errBrowser  = &refusal{http.StatusForbidden, "permission", "browsers reach a server in a sandbox by the host PORT-ID--TENANT alone, which keeps its pages apart from all else"}
)

// admit says whether a request may pass, and why.
func (g *Gateway) admit(r *http.Request, t *target) (a admission, err error) {
	if !t.alone() && fromBrowser(r) {
		return a, errBrowser
	}
	if a.caller, err = g.callerOfRequest(r, &a); err != nil {
		return a, err
	}
	a.tenant = a.caller.Tenant
	switch {
	case a.tenant != "":
		if t.alone() && t.tenant != a.tenant || !namespaceIs(r, a.tenant) {
			return a, launcher.ErrNotFound
		}
		return a, nil
	case !t.alone():
		return a, g.failed(r, errStranger)
	}
	a.tenant = t.tenant
	if g.admitLink(r, t, &a) {
		return a, nil
	}
	a.public, err = g.isPublic(r.Context(), t)
	if err == nil && !a.public {
		err = errStranger
	}
	return a, err
}

// callerOfRequest returns who sends a request; nobody if it has no token, or one that is the
// server's own.
func (g *Gateway) callerOfRequest(r *http.Request, a *admission) (Caller, error) {
	caller, err := Caller{}, error(nil)
	for _, value := range r.Header["Authorization"] {
		if scheme, token, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "bearer") && !a.authorization {
			a.token = strings.TrimSpace(token)
			caller, err = g.ask(r, a.token)
			a.authorization = err == nil
		}
	}
	given := r.Header[headerToken]
	if len(given) > 0 && (err == nil || errors.Is(err, ErrUnknownToken)) {
		a.token = given[0]
		caller, err = g.ask(r, a.token)
	}
	if err == nil && caller.Tenant != "" {
		return caller, nil
	}
	a.token = ""
	switch {
	case err != nil && !errors.Is(err, ErrUnknownToken):
		return Caller{}, g.untold(err)
	case len(given) > 0:
		return Caller{}, g.failed(r, errStranger)
	}
	return Caller{}, nil
}

// of returns whose request it is: for a link, and for a port that is public, the tenant's whose
// the server is.
func (a *admission) of() Caller {
	if a.caller.Tenant == "" {
		return Caller{Tenant: a.tenant}
	}
	return a.caller
}

// fromBrowser reports whether a browser sent a request for a page, or for a script of one.
func fromBrowser(r *http.Request) bool {
	return r.Header["Sec-Fetch-Site"] != nil || r.Header["Origin"] != nil
}

// namespaceIs reports whether a request names this tenant as its namespace, or none.
func namespaceIs(r *http.Request, tenant string) bool {
	names := r.Header[headerNamespace]
	return len(names) == 0 || len(names) == 1 && names[0] == tenant
}

// admitLink reports whether a request has a link that opens a server, and says so in a.
func (g *Gateway) admitLink(r *http.Request, t *target, a *admission) bool {
	given := linkToken(r.Header.Get(headerLink))
	inURL := linkToken(linkOfQuery(r.URL.RawQuery))
	switch {
	case given != "" && g.opens(r.Context(), given, t):
		a.link = given
	case inURL != "" && g.opens(r.Context(), inURL, t):
		a.link, a.followed = inURL, navigates(r)
	case fromOwnPage(r):
		for _, c := range r.CookiesNamed(cookieLink) {
			if g.opens(r.Context(), linkToken(c.Value), t) {
				a.link = linkToken(c.Value)
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// navigates reports whether a browser, or who looks like one, wants a page.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if mode := r.Header.Get("Sec-Fetch-Mode"); mode != "" {
		return mode == "navigate"
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html")
}

// fromOwnPage reports whether a request of a browser comes from its user or from a page of the
// same server. The pages of other sandboxes, which browsers may take for parts of the same site,
// can but lead to it in the open.
func fromOwnPage(r *http.Request) bool {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "same-origin", "none":
		return true
	case "":
		origin := r.Header.Get("Origin")
		_, host, _ := strings.Cut(origin, "://")
		return origin == "" || strings.EqualFold(host, r.Host)
	}
	return navigates(r) && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// hide keeps the words of an error from strangers, who are told no more than its class.
func (g *Gateway) hide(ctx context.Context, a *admission, err error) error {
	if _, plain := errors.AsType[*refusal](err); plain || a.caller.Tenant != "" {
		return err
	}
	p := problemOf(g.problem(ctx, err))
	return &refusal{p.Status, p.Class, "the sandbox cannot be reached"}
}

// withoutLink returns a query without the token of a link; all else is as it came.
func withoutLink(query string) string {
	if !strings.Contains(query, queryLink) {
		return query
	}
	parts := strings.Split(query, "&")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return name == queryLink
	}), "&")
}

// linkOfQuery returns the token of a link in a query.
func linkOfQuery(query string) string {
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		if token, ok := strings.CutPrefix(part, queryLink+"="); ok {
			return token
		}
	}
	return ""
}
