package gateway

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// A request goes to a server in a sandbox by its host name, or else by these headers, on any path.
const (
	headerID   = "X-Sandbox-Id"
	headerPort = "X-Sandbox-Port"
	// headerNamespace is of agent-sandbox's router. Here it may only name the caller's tenant.
	headerNamespace = "X-Sandbox-Namespace"
	// defaultPort is that of agent-sandbox's router.
	defaultPort = 8888
)

// target is the server that a request is for.
type target struct {
	tenant string // "" is the caller's: a request without credentials reaches nothing then
	name   string
	port   int
	// byHeader says that the gateway's own host was called, which may have cookies of its own.
	byHeader bool
	foreign  foreign
}

// alone reports whether the host that was called is that of this server only, so that a browser
// keeps it apart from all others. Two tenants' sandboxes can share any other host.
func (t *target) alone() bool { return t.tenant != "" }

// Errors of requests that name no server that there could be.
var (
	errTarget = &refusal{http.StatusBadRequest, "invalid", "X-Sandbox-ID must be the name of a sandbox, and X-Sandbox-Port a port from 1 to 65535, each given once"}
	errHost   = &refusal{http.StatusNotFound, "no_sandbox", "no server in a sandbox has this host name, which must be PORT-ID--TENANT or PORT-ID before the domain; the gateway's own operations are at another host"}
	errMethod = &refusal{http.StatusMethodNotAllowed, "unsupported", "CONNECT is not passed on"}
)

// targetOf returns the server that a request is for; nil if it is for the gateway itself. A host
// below the domain is never the gateway's, and there the headers do not count.
func (g *Gateway) targetOf(r *http.Request) (*target, error) {
	if label, below := g.domain.label(r.Host); below {
		t, ok := parseLabel(label)
		switch {
		case !ok:
			return nil, errHost
		case r.Method == http.MethodConnect:
			return nil, errMethod
		}
		return t, nil
	}
	names, ports := r.Header[headerID], r.Header[headerPort]
	if len(names) == 0 {
		return nil, nil
	}
	port, ok := parsePort(cmp.Or(strings.Join(ports, ","), strconv.Itoa(defaultPort)))
	switch {
	case len(names) > 1 || !ok || CheckName(names[0]) != nil:
		return nil, errTarget
	case r.Method == http.MethodConnect:
		return nil, errMethod
	}
	return &target{name: names[0], port: port, byHeader: true}, nil
}

// Own reports whether a request is for what the gateway itself serves: neither its host nor a header names a
// server in a sandbox.
func (g *Gateway) Own(r *http.Request) bool {
	_, below := g.domain.label(r.Host)
	return !below && r.Header[headerID] == nil
}

// domain is what the hosts of servers in sandboxes end with.
type domain struct {
	host string // in lower case; "" for none
	port string // of the links; "" for the scheme's
	tls  bool   // the gateway has it
}

func parseDomain(text string, tls bool) domain {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host = text
	}
	return domain{strings.ToLower(strings.Trim(host, ".")), port, tls}
}

// HostIn returns a host name of a server in a sandbox below a domain, as of [Options], such as a
// certificate must be for; "" without a domain.
func HostIn(of string) string {
	d := parseDomain(of, false)
	if d.host == "" {
		return ""
	}
	return "8080-name" + hostSeparator + "tenant." + d.host
}

// scheme is how browsers reach the servers. Only this machine's own names, which lead no further,
// go without TLS: browsers trust them as if they had it.
func (d domain) scheme() string {
	if !d.tls && (d.host == "localhost" || strings.HasSuffix(d.host, ".localhost")) {
		return "http"
	}
	return "https"
}

// origin returns the URL of a server, without a path.
func (d domain) origin(t *target) string {
	host := strconv.Itoa(t.port) + "-" + t.name + hostSeparator + t.tenant + "." + d.host
	if d.port != "" {
		host += ":" + d.port
	}
	return d.scheme() + "://" + host
}

// label returns what a host has before the domain, and whether it is the domain or below it.
func (d domain) label(host string) (label string, below bool) {
	if d.host == "" {
		return "", false
	}
	host, _, _ = strings.Cut(host, ":") // the port; an IPv6 address is below no domain
	host = strings.ToLower(strings.TrimRight(host, "."))
	if host == d.host {
		return "", true
	}
	return strings.CutSuffix(host, "."+d.host)
}

// hostSeparator is between the names of a sandbox and its tenant in a host name. No name has it.
const hostSeparator = "--"

// parseLabel takes apart PORT-NAME--TENANT, or PORT-NAME.
func parseLabel(label string) (*target, bool) {
	first, rest, _ := strings.Cut(label, "-")
	name, tenant, full := strings.Cut(rest, hostSeparator)
	port, ok := parsePort(first)
	if !ok || CheckName(name) != nil || full && CheckTenant(tenant) != nil {
		return nil, false
	}
	return &target{tenant: tenant, name: name, port: port}, true
}

// parsePort reads a port from 1 to 65535, which has one way of being written.
func parsePort(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil && n > 0 && text[0] != '0'
}

// route passes a request to a server in a sandbox.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request, t *target) {
	a, err := g.admit(r, t)
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	w, r, end, err := g.letInCaller(w, r, a.token, a.of())
	if err != nil {
		g.refuse(w, r, err)
		return
	}
	defer end()
	defer stopReading(w, r)
	actOf(r.Context()).is(RouteOperation, t.name)
	if err := begin(r.Context(), Detail{Method: r.Method, Paths: []string{r.URL.Path}, Port: t.port}); err != nil {
		g.refuse(w, r, err)
		return
	}
	if a.link != "" {
		within, cancel := context.WithDeadlineCause(r.Context(), g.expiryOf(a.link, t), errLinkOver)
		defer cancel()
		r = r.WithContext(within)
	}
	if a.followed {
		g.setCookie(w, r, t, a.link)
		return
	}
	g.pass(w, r, t, a, g.refuse)
}

// pass passes a request that is let in to a server in a sandbox. What keeps it from that is told by refuse.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, t *target, a admission, refuse func(http.ResponseWriter, *http.Request, error)) {
	id := t.foreign.id(a.tenant, t.name)
	s, err := g.held.get(r.Context(), id, true)
	if err != nil {
		refuse(w, r, g.hide(r.Context(), &a, err))
		return
	}
	defer g.held.release(id, s)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	p := &passage{target: t, admission: a, scheme: g.domain.scheme(), cancel: cancel, faces: len(g.Faces) > 0}
	p.failed = func(w http.ResponseWriter, err error) {
		if isSandboxGone(err) {
			g.held.drop(id, s)
		}
		refuse(w, r, g.hide(r.Context(), &a, p.explain(err)))
	}
	out := r.WithContext(ctx)
	p.duplex(w, out)
	p.proxy(s.ways.to(s.sandbox, isGRPC(r)), g.quiet).ServeHTTP(&answerWriter{w, p, 0}, out)
}

// isGRPC reports whether a request is one of gRPC, which needs HTTP/2 all the way.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
