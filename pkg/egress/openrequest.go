package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/egress/internal/mask"
)

// ServeHTTP passes on a request to the host.
func (x *openedTLS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	x.asked = true
	x.mu.Unlock()
	if status, why := x.refuses(r); why != "" {
		x.refuse(w, r, status, why)
		return
	}
	give, err := x.opener.budget.take(r.Context(), requestCost(x.mask))
	if err != nil {
		x.refuse(w, r, http.StatusServiceUnavailable, err.Error())
		return
	}
	defer give()
	x.begin(r)
	x.opener.secrets.lookFor(r, func(name, where string) { x.tell(r.Context(), Noticed, name, where) })
	done, err := x.opener.secrets.putInto(r.Header, x.bound)
	for name, header := range done.stayed {
		x.tell(r.Context(), Noticed, name, "the header "+header)
	}
	if err != nil {
		x.refuse(w, r, http.StatusRequestHeaderFieldsTooLarge, err.Error())
		return
	}
	for name, header := range done.used {
		x.tell(r.Context(), Allowed, name, "the header "+header)
	}
	if done.count > 0 {
		r.Header.Set("Accept-Encoding", "identity") // a mask reads no compressed text
	}
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(w).EnableFullDuplex() // hosts may answer while they read
	}
	answer := &mask.Answer{ResponseWriter: w, Mask: x.mask.With(done.texts)}
	whole := false
	defer func() {
		answer.Close(whole)
		if !whole && r.ProtoMajor == 1 {
			x.conn.reset() // so that a cut body of HTTP/1.0 does not look whole
		}
	}()
	x.proxy.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), maskKey{}, answer.Mask)))
	whole = true
}

// maskKey is the key of a request's mask in its context.
type maskKey struct{}

// refuses returns why a request is not passed on, "" if it is.
func (x *openedTLS) refuses(r *http.Request) (status int, why string) {
	switch {
	case !x.isHost(r.Host) || r.URL.Host != "" && !x.isHost(r.URL.Host):
		return http.StatusMisdirectedRequest, fmt.Sprintf("this connection is to %s, and the request is for %.200q: connect to that host", x.to, r.Host)
	case r.URL.Opaque != "":
		return http.StatusBadRequest, "the request's target is neither a path nor a URL"
	case r.Method == http.MethodConnect || r.Method == http.MethodTrace:
		// TRACE would show the secrets in the request.
		return http.StatusMethodNotAllowed, "requests with the method " + r.Method + " are not passed on to hosts that have secrets"
	}
	if t, ok := r.Context().Value(tryKey{}).(*try); ok {
		if err := t.proxy.mayTry(); err != nil {
			return http.StatusServiceUnavailable, err.Error()
		}
	}
	return 0, ""
}

// isHost reports whether the Host of a request is that of the connection.
func (x *openedTLS) isHost(host string) bool {
	port := strconv.Itoa(int(x.to.port))
	if at := strings.LastIndexByte(host, ':'); at >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:at], host[at+1:]
	}
	asked, err := newTarget(host, port)
	return err == nil && asked == x.to
}

// refuse answers a request that is not passed on, and tells of it, once for each reason and
// connection.
func (x *openedTLS) refuse(w http.ResponseWriter, r *http.Request, status int, why string) {
	if t, ok := r.Context().Value(tryKey{}).(*try); ok && x.denied.has(why) {
		t.tell(Denied, netip.Addr{}, why)
	}
	answer{status: status, body: "The request was not passed on: " + why + ".\n"}.write(w)
}

// hasAsked reports whether the client has sent a request.
func (x *openedTLS) hasAsked() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked
}

// tell tells of a secret, once for the connection and each kind of place.
func (x *openedTLS) tell(ctx context.Context, v Verdict, name, where string) {
	kind, _, _ := strings.Cut(strings.TrimPrefix(where, "the "), " ")
	key := string(v) + " " + name + " " + kind
	x.mu.Lock()
	again := x.told[key]
	x.told[key] = true
	x.mu.Unlock()
	if t, ok := ctx.Value(tryKey{}).(*try); ok && !again {
		t.tellOf(v, name, where)
	}
}

// tellOf tells that the value of a secret was put into a place in a request, if the
// verdict is Allowed, or that its placeholder stayed there.
func (t *try) tellOf(v Verdict, name, where string) {
	d := t.decision(v, netip.Addr{}, "its value was put into "+where)
	if d.Secret = name; v == Noticed {
		d.Reason = "its placeholder is in " + where + ", and stays there"
	}
	t.proxy.log(d)
}

// watch tells of placeholders in a request that is not opened: they stay.
func (o *tlsOpener) watch(r *http.Request, t *try) {
	tell := func(name, where string) { t.tellOf(Noticed, name, where) }
	o.secrets.lookFor(r, tell)
	stayed, _ := o.secrets.putInto(r.Header, nil) // it puts nothing, and so cannot fail
	for name, header := range stayed.stayed {
		tell(name, "the header "+header)
	}
}

// rewrite makes the request to the host the same as the client's, but for its secrets.
func (x *openedTLS) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.User = "https", x.to.String(), nil
	p.Out.URL.RawQuery = p.In.URL.RawQuery // without what ReverseProxy cleans
	p.Out.Host = p.In.Host
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := p.In.Header[name]; values != nil {
			p.Out.Header[name] = values
		}
	}
	p.Out.Trailer = p.In.Trailer // the server fills this map at the body's end
	onlyWebSockets(p.Out.Header)
}

// onlyWebSockets leaves out upgrades to other protocols, and what belongs to them. In HTTP/2
// each request would name a host, and none would be looked at.
func onlyWebSockets(h http.Header) {
	h.Del("Http2-Settings")
	if to := h.Get("Upgrade"); to != "" && !strings.EqualFold(to, "websocket") {
		h.Del("Upgrade")
		h.Del("Connection")
	}
}

// upgraded masks the header of an answer after which the connection is another protocol's.
// The other answers pass by WriteHeader.
func (x *openedTLS) upgraded(r *http.Response) error {
	if m, ok := r.Request.Context().Value(maskKey{}).(*mask.Mask); ok && r.StatusCode == http.StatusSwitchingProtocols {
		m.Header(r.Header)
	}
	return nil
}

// failed answers a request that did not get to the host, or has no answer.
func (x *openedTLS) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody reads the answer
	}
	if isRefusal(err) || errors.As(err, new(*unreachable)) {
		answerTo(err).write(w)
		return
	}
	answer{status: http.StatusBadGateway, body: fmt.Sprintf("The request to %s failed between the proxy outside of the sandbox and the host: %s.\n", x.to, why(err))}.write(w)
}

// why returns what the sandbox may know of an error: no addresses of the far end's.
func why(err error) string {
	var errno syscall.Errno
	var op *net.OpError
	switch {
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}
