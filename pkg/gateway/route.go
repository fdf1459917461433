package gateway

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/podagent/podagent/pkg/launcher"
)

// A request is routed to a server in a sandbox by headers, on any path, or by its host name.
const (
	headerID   = "X-Sandbox-Id"
	headerPort = "X-Sandbox-Port"
	// headerToken has the gateway's token where Authorization is the server's.
	headerToken = "X-Sandbox-Token"
	// defaultPort is that of agent-sandbox's router.
	defaultPort = 8888
)

// target is the server that a request is for.
type target struct {
	name string
	port int
}

var hostExp = regexp.MustCompile(`^([1-9][0-9]{0,4})-([a-z0-9]+(?:-[a-z0-9]+)*)$`)

// errTarget says that a request names no server that there could be.
var errTarget = errors.New("the sandbox or the port is not valid")

// targetOf returns the server that a request is for; nil if it is for the gateway itself.
func (g *Gateway) targetOf(r *http.Request) (*target, error) {
	if t, ok := g.hostTarget(r.Host); ok {
		return t, nil
	}
	name, port := r.Header.Get(headerID), r.Header.Get(headerPort)
	if name == "" {
		return nil, nil
	}
	t := &target{name, defaultPort}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return nil, errTarget
		}
		t.port = int(n)
	}
	if CheckName(name) != nil {
		return nil, errTarget
	}
	return t, nil
}

// hostTarget takes a host name apart: PORT-NAME.DOMAIN.
func (g *Gateway) hostTarget(host string) (*target, bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	label, domain, _ := strings.Cut(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	m := hostExp.FindStringSubmatch(label)
	if g.Domain == "" || domain != g.Domain || m == nil {
		return nil, false
	}
	port, err := strconv.ParseUint(m[1], 10, 16)
	return &target{m[2], int(port)}, err == nil
}

// route passes a request to a server in a sandbox.
func (g *Gateway) route(w http.ResponseWriter, r *http.Request, t *target) {
	caller, own, err := g.callerOfRequest(r)
	if err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	id := launcherID(caller.Tenant, t.name)
	s, err := g.held.get(r.Context(), id)
	if err == nil {
		defer g.held.release(id, s)
		proxyTo(s.ways.to(s.sandbox, t.port, isGRPC(r)), t.port, own).ServeHTTP(w, r)
		return
	}
	_, status := classify(err)
	http.Error(w, err.Error(), status)
}

// callerOfRequest returns who sends a request to be routed, and the header with the token, which
// the server must not see.
func (g *Gateway) callerOfRequest(r *http.Request) (caller Caller, header string, err error) {
	header, token := headerToken, r.Header.Get(headerToken)
	if token == "" {
		var scheme string
		header = "Authorization"
		scheme, token, _ = strings.Cut(r.Header.Get(header), " ")
		if !strings.EqualFold(scheme, "bearer") {
			return Caller{}, "", ErrUnknownToken
		}
	}
	caller, err = g.Tenants.Caller(r.Context(), token)
	return caller, header, err
}

// proxyTo returns the proxy to a server in a sandbox. own is the header with the gateway's token.
func proxyTo(way http.RoundTripper, port int, own string) http.Handler {
	return &httputil.ReverseProxy{
		Transport:     way,
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", net.JoinHostPort("localhost", strconv.Itoa(port))
			p.Out.Host = p.In.Host
			p.Out.URL.RawQuery = p.In.URL.RawQuery // as it came
			for _, name := range []string{own, headerID, headerPort, headerToken, "X-Sandbox-Namespace"} {
				p.Out.Header.Del(name)
			}
			p.SetXForwarded()
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // nobody waits for an answer
			}
			http.Error(w, "the sandbox's server does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
}

// isGRPC reports whether a request is one of gRPC, which needs HTTP/2 all the way.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// ways are the ways to the servers in a sandbox, with connections that are kept.
type ways struct {
	mu   sync.Mutex
	open map[way]*http.Transport
}

type way struct {
	port  int
	http2 bool
}

// to returns the way to a port.
func (w *ways) to(s *launcher.Sandbox, port int, http2 bool) *http.Transport {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.open[way{port, http2}]; t != nil {
		return t
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, port) },
		DisableCompression: true, Protocols: protocols,
		MaxIdleConnsPerHost: keptConns, IdleConnTimeout: keptFor,
	}
	if w.open == nil {
		w.open = map[way]*http.Transport{}
	}
	w.open[way{port, http2}] = t
	return t
}

func (w *ways) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.open {
		t.CloseIdleConnections()
	}
}
