package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// passage is a request on its way to a server in a sandbox, and its answer on the way back.
type passage struct {
	*target
	admission
	body   *requestBody // of HTTP/1; nil if there is none
	scheme string       // of the server's host, for browsers: a proxy before the gateway may have TLS
	cancel context.CancelCauseFunc
	faces  bool // clients of other APIs send tokens for sandboxes, also where none is asked for
	failed func(w http.ResponseWriter, err error)
}

var errInformed = errors.New("the server sends informational answers without end")

// proxy returns what passes the request on. The standard library takes care of the headers that
// are for one hop alone, of upgrades, trailers and streams.
func (p *passage) proxy(way http.RoundTripper, logs *log.Logger) *httputil.ReverseProxy {
	proxy := &httputil.ReverseProxy{
		Transport: way, FlushInterval: -1, ErrorLog: logs,
		Rewrite:      p.rewrite,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { p.failed(w, err) },
	}
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.StatusCode < 100 || answer.StatusCode > 999 { // net/http panics on these
			return fmt.Errorf("its status is %d", answer.StatusCode)
		}
		if answer.ContentLength == 0 {
			// It must not be flushed before its end: to gRPC, one that ends with its header has
			// a status there, and any other in its trailer.
			proxy.FlushInterval = 0
		}
		p.cleanAnswer(answer.Header)
		return nil
	}
	return proxy
}

// rewrite makes the request that the server sees: what came, without what is the gateway's.
func (p *passage) rewrite(r *httputil.ProxyRequest) {
	r.Out.Host = r.In.Host
	r.Out.URL.Scheme, r.Out.URL.Host = "http", net.JoinHostPort("localhost", strconv.Itoa(p.port))
	keepPath(r)
	r.Out.Trailer = r.In.Trailer // which has values when the body has been read
	r.Out.URL.RawQuery = spaces.Replace(r.In.URL.RawQuery)
	for name := range r.Out.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "X-Real-Ip" {
			delete(r.Out.Header, name)
		}
	}
	for _, name := range []string{headerID, headerPort, headerNamespace, headerToken, headerLink} {
		delete(r.Out.Header, name)
	}
	if p.authorization {
		delete(r.Out.Header, "Authorization")
	}
	if p.faces {
		dropSandboxTokens(r.Out.Header, p.admission.tenant)
	}
	r.SetXForwarded()
	if p.byHeader {
		delete(r.Out.Header, "Cookie") // cookies of this host are the gateway's
		return
	}
	r.Out.Header.Set("X-Forwarded-Proto", p.scheme)
	r.Out.URL.RawQuery = withoutLink(r.Out.URL.RawQuery)
	cleanCookies(r.Out.Header)
}

// spaces mends what HTTP/2 lets through and a line of HTTP/1 does not.
var spaces = strings.NewReplacer(" ", "%20")

// keepPath lets a path be, byte for byte: the standard library would encode some bytes anew.
func keepPath(r *httputil.ProxyRequest) {
	path, _, _ := strings.Cut(r.In.RequestURI, "?")
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") { // which it would take for a host
		r.Out.URL.Opaque = spaces.Replace(path)
	}
}

// cleanCookies takes the gateway's cookies out of a request.
func cleanCookies(h http.Header) {
	if !strings.Contains(strings.Join(h["Cookie"], ";"), cookiePrefix) {
		return
	}
	var kept []string
	for _, line := range h["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			if part = strings.Trim(part, " \t"); part != "" && !isOurs(part) {
				kept = append(kept, part)
			}
		}
	}
	delete(h, "Cookie")
	if len(kept) > 0 {
		h.Set("Cookie", strings.Join(kept, "; "))
	}
}

// isOurs reports whether a cookie has a name of the gateway's. A browser may take one without a
// name for one whose name is in its value.
func isOurs(cookie string) bool {
	name := strings.TrimLeft(cookie, " \t=")
	return len(name) >= len(cookiePrefix) && strings.EqualFold(name[:len(cookiePrefix)], cookiePrefix)
}

// cleanAnswer takes out of an answer what would reach beyond the server's own host.
func (p *passage) cleanAnswer(h http.Header) {
	// Clear-Site-Data logs out of the whole domain, Alt-Svc leads past the gateway, and the others
	// make a proxy before the gateway send a file of its own.
	for _, name := range []string{"Clear-Site-Data", "Alt-Svc", "X-Accel-Redirect", "X-Sendfile"} {
		delete(h, name)
	}
	if p.byHeader {
		for _, name := range []string{"Set-Cookie", "Strict-Transport-Security", "Service-Worker-Allowed", "Nel", "Report-To"} {
			delete(h, name)
		}
		// No browser comes here. If one did, the page would have no origin.
		h.Add("Content-Security-Policy", "sandbox")
	}
	cleanSetCookies(h)
	if control := strings.Join(h["Cache-Control"], ", "); !p.public && !strings.Contains(control, "private") && !strings.Contains(control, "no-store") {
		// A cache before the gateway would hand it to those who may not see it.
		h.Add("Cache-Control", "private")
	}
}

// cleanSetCookies leaves a server's cookies to its own host, and without the gateway's names.
func cleanSetCookies(h http.Header) {
	all := h["Set-Cookie"]
	kept := all[:0]
	for _, cookie := range all {
		if isOurs(cookie) {
			continue
		}
		parts := strings.Split(cookie, ";")
		clean := parts[:1]
		for _, part := range parts[1:] {
			name, _, _ := strings.Cut(part, "=")
			if !strings.EqualFold(strings.Trim(name, " \t"), "domain") {
				clean = append(clean, part)
			}
		}
		kept = append(kept, strings.Join(clean, ";"))
	}
	if len(all) > 0 {
		h["Set-Cookie"] = kept
	}
}

// explain says why a server has not answered.
func (p *passage) explain(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &refusal{http.StatusBadGateway, "no_server", fmt.Sprintf("nothing listens at port %d of the sandbox", p.port)}
	case isSandboxGone(err):
		return err
	}
	if _, status := classify(err); status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
		return err
	}
	return &refusal{http.StatusBadGateway, "bad_answer", fmt.Sprintf("the server at port %d of the sandbox does not answer by HTTP: %v", p.port, err)}
}

// requestBody knows whether it was read to its end.
type requestBody struct {
	io.ReadCloser
	ended atomic.Bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	return n, err
}

// duplex lets a server answer before it has read the whole request. HTTP/1 needs to be told.
func (p *passage) duplex(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 && http.NewResponseController(w).EnableFullDuplex() == nil {
		p.body = &requestBody{ReadCloser: r.Body}
		r.Body = p.body
	}
}

// answerWriter passes informational answers on (1xx), so far as there are not too many.
type answerWriter struct {
	http.ResponseWriter
	passage  *passage
	informed int
}

func (w *answerWriter) WriteHeader(status int) {
	switch body := w.passage.body; {
	case status >= http.StatusOK && body != nil && !body.ended.Load():
		// The rest of the request may never come, or be taken for another one.
		w.Header().Set("Connection", "close")
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		if w.informed++; w.informed > informLimit {
			w.passage.cancel(errInformed)
			return
		}
		w.passage.cleanAnswer(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets [http.ResponseController] find what else the writer can do.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
