package egress

import (
	"cmp"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// httpServer returns the server of HTTP/1.1 clients. It reads requests: what it passes
// on is written anew, so that the host reads it in the same way.
// Its BaseContext is to be set.
func (p *proxy) httpServer() *http.Server {
	return &http.Server{
		Handler:                      http.HandlerFunc(p.serveHTTP),
		MaxHeaderBytes:               largestHeader,
		ReadHeaderTimeout:            p.headerTime,
		IdleTimeout:                  idleTime,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     discard, // of what the sandbox sends
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(c.(*client).during(ctx), clientKey{}, c)
		},
	}
}

// clientKey is for the *client of a request, and tryKey for its *try.
type (
	clientKey struct{}
	tryKey    struct{}
)

func (p *proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		p.connect(w, r)
		return
	}
	p.forward(w, r)
}

// connect serves CONNECT.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := net.SplitHostPort(r.URL.Host)
	if err != nil || r.URL.Path != "" || r.ContentLength != 0 {
		p.badRequest(w, r, protocolConnect, r.URL.Host, "", "CONNECT must be for HOST:PORT, without a body")
		return
	}
	t, err := p.newTry(protocolConnect, host, port)
	var l *link
	if err == nil && !t.opens() {
		l, err = t.connect(r.Context())
	}
	c := hijack(w, r)
	switch {
	case c == nil && l != nil:
		l.Close()
	case c == nil:
	case err != nil:
		goodbye(c, answerTo(err).raw())
	case !p.established(c):
		if c.Close(); l != nil {
			l.Close()
		}
	default:
		t.tunnel(r.Context(), c, l)
	}
}

func (p *proxy) established(c *client) bool {
	_, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	return err == nil
}

// hijack takes the client of a request over, or returns nil.
func hijack(w http.ResponseWriter, r *http.Request) *client {
	_, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	c := r.Context().Value(clientKey{}).(*client)
	_ = c.SetDeadline(time.Time{}) // an error comes with the next read, too
	if n := rw.Reader.Buffered(); n > 0 {
		ahead, _ := rw.Reader.Peek(n) // of what is in the buffer
		c.unread(append([]byte(nil), ahead...))
	}
	return c
}

// forward serves a request with an absolute URL.
func (p *proxy) forward(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Host == "" || r.URL.Opaque != "":
		p.badRequest(w, r, protocolHTTP, r.Host, "", "This is the proxy of the sandbox's way out. A request to it needs an absolute URL, or CONNECT")
		return
	case r.URL.Scheme != "http":
		port := cmp.Or(r.URL.Port(), map[string]string{"https": "443"}[r.URL.Scheme])
		p.badRequest(w, r, protocolHTTP, r.URL.Hostname(), port, "The proxy takes absolute URLs of http. For everything else use CONNECT")
		return
	}
	t, err := p.newTry(protocolHTTP, r.URL.Hostname(), cmp.Or(r.URL.Port(), "80"))
	if err != nil {
		answerTo(err).write(w)
		return
	}
	if p.opener != nil {
		p.opener.watch(r, t)
	}
	defer func() {
		if gone := recover(); gone != nil { // http.ErrAbortHandler: the answer is not complete
			_ = r.Context().Value(clientKey{}).(*client).SetLinger(0)
			panic(gone)
		}
	}()
	// Otherwise the server would drop what it has not read when the answer begins.
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1.1 can
	p.http.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), tryKey{}, t)))
}

// forwarder returns what passes requests on.
func (p *proxy) forwarder() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: rewrite,
		Transport: &tellingTransport{&http.Transport{
			DialContext:            p.dialHTTP,
			DisableCompression:     true,
			MaxIdleConns:           64,
			MaxIdleConnsPerHost:    8,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: largestHeader,
			ExpectContinueTimeout:  time.Second,
		}},
		FlushInterval: -1,
		BufferPool:    bufferPool{},
		ErrorLog:      discard,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { answerTo(err).write(w) },
	}
}

// rewrite makes the request to the host of a client's request. Its Host is the one that
// was allowed, in the canonical form.
func rewrite(r *httputil.ProxyRequest) {
	t := r.In.Context().Value(tryKey{}).(*try)
	r.Out.URL.Host = t.target.String()
	r.Out.Host = (&url.URL{Host: t.target.String()}).Hostname()
	if strings.Contains(r.Out.Host, ":") {
		r.Out.Host = "[" + r.Out.Host + "]"
	}
	if port := r.In.URL.Port(); port != "" {
		r.Out.Host += ":" + port
	}
	r.Out.URL.User = nil
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	r.Out.Trailer = r.In.Trailer // which gets its values at the end of the body
	// ReverseProxy drops what it thinks is its own to say.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := r.In.Header[name]; values != nil {
			r.Out.Header[name] = values
		}
	}
	// Over HTTP/2 each request would have a host of its own, and TLS a server name.
	if to := strings.ToLower(r.Out.Header.Get("Upgrade")); strings.Contains(to, "h2c") || strings.Contains(to, "tls") {
		r.Out.Header.Del("Upgrade")
		r.Out.Header.Del("Connection")
	}
}

// dialHTTP connects to a host for the requests of one or more tries.
func (p *proxy) dialHTTP(ctx context.Context, _, _ string) (net.Conn, error) {
	l, err := p.reach(ctx, ctx.Value(tryKey{}).(*try))
	if err != nil {
		return nil, err
	}
	return l, nil
}

// tellingTransport tells how each try ends.
type tellingTransport struct{ *http.Transport }

func (tt *tellingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t := r.Context().Value(tryKey{}).(*try)
	var once sync.Once
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		once.Do(func() { t.tell(Allowed, info.Conn.(*link).addr, "") })
	}}
	response, err := tt.Transport.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err != nil {
		once.Do(func() { _ = t.failed(err) })
	}
	return response, err
}

// bufferPool has the buffers of answers.
type bufferPool struct{}

func (bufferPool) Get() []byte  { return buffers.Get().(*[copyBuffer]byte)[:] }
func (bufferPool) Put(b []byte) { buffers.Put((*[copyBuffer]byte)(b)) }

// handoff is the listener of the HTTP server.
type handoff struct {
	addr    net.Addr
	clients chan *client
	closed  chan struct{}
	once    sync.Once
}

func newHandoff(addr net.Addr) *handoff {
	return &handoff{addr: addr, clients: make(chan *client), closed: make(chan struct{})}
}

// give has the server serve a client.
func (h *handoff) give(c *client) {
	select {
	case h.clients <- c:
	case <-h.closed:
		c.Close()
	}
}

func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.clients:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handoff) Addr() net.Addr { return h.addr }

// discard is for errors that the sandbox can cause at will.
var discard = log.New(io.Discard, "", 0)
