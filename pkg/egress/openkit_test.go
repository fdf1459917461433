package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/egress/internal/authority"
	"github.com/podagent/podagent/pkg/egress/internal/mask"
)

const (
	theValue  = "hunter2/&?éÿ+correct-horse"
	theHost   = "api.example.test"
	otherHost = "other.example.test"
)

// opened is a world in which some hosts exist, and a proxy opens the TLS to those that have
// secrets.
type opened struct {
	*tlsOpener
	proxy *url.URL
	world *authority.CA
	asker *proxy
	seen  chan Decision // but for what is allowed
	mu    sync.Mutex
	hosts map[string]string // addresses by HOST:PORT
}

// mustRules parses rules.
func mustRules(t testing.TB, texts ...string) []Rule {
	t.Helper()
	var rules []Rule
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	return rules
}

// theSecret is bound to theHost.
func theSecret(t testing.TB) Secret {
	return Secret{Name: "TOKEN", Value: []byte(theValue), Hosts: mustRules(t, theHost+":443,8443")}
}

func newOpened(t testing.TB, secrets ...Secret) *opened {
	t.Helper()
	seed := []byte("a seed of sixteen bytes and more")
	set, err := newSecretSet(secrets, seed)
	if err != nil {
		t.Fatal(err)
	}
	own, err := authority.New(seed)
	if err != nil {
		t.Fatal(err)
	}
	world, err := authority.New([]byte("the seed of the world's authority"))
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{world: world, seen: make(chan Decision, 100), hosts: map[string]string{}}
	o.tlsOpener = openerOf(own, set, Options{Roots: trusting(world)})
	o.asker = newProxy(Options{Log: func(d Decision) {
		if d.Verdict != Allowed {
			o.seen <- d
		}
	}}, nil)
	o.listen(t)
	return o
}

func trusting(authorities ...*authority.CA) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a.Certificate())
	}
	return pool
}

// placeholder returns that of a secret.
func (o *opened) placeholder(name string) string {
	for _, s := range o.secrets.list() {
		if s.Name == name {
			return s.placeholder
		}
	}
	return ""
}

// host starts a host with a real certificate, which speaks HTTP/2, too.
func (o *opened) host(t testing.TB, name string, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	cert, err := o.world.Leaf(name)
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = discard
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	o.is(name+":443", server.Listener.Addr().String())
	return server
}

// is says where a host is.
func (o *opened) is(host, address string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hosts[host] = address
}

func (o *opened) dial(ctx context.Context, to target) (net.Conn, error) {
	o.mu.Lock()
	address := o.hosts[to.String()]
	o.mu.Unlock()
	if address == "" {
		return nil, &unreachable{text: to.String() + " cannot be resolved: no such host"}
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// listen starts a proxy that knows CONNECT alone.
func (o *opened) listen(t testing.TB) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { o.connect(ctx, conn) })
		}
	})
	t.Cleanup(func() { cancel(); l.Close(); all.Wait() })
	o.proxy = &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// connect serves one connection to the proxy.
func (o *opened) connect(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	request, err := http.ReadRequest(r)
	if err != nil || request.Method != http.MethodConnect {
		return
	}
	host, port, _ := net.SplitHostPort(request.Host)
	to, err := newTarget(host, port)
	if err != nil {
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	dial := func(ctx context.Context) (net.Conn, error) { return o.dial(ctx, to) }
	if o.opens(to.host(), int(to.port)) {
		ctx = context.WithValue(ctx, tryKey{}, &try{proxy: o.asker, target: to})
		if err := o.open(ctx, &bufferedConn{conn, r}, to, dial); err != nil && err != errNoRequest {
			_ = ctx.Value(tryKey{}).(*try).failed(err)
		}
		return
	}
	up, err := dial(ctx)
	if err != nil {
		return
	}
	defer up.Close()
	defer context.AfterFunc(ctx, func() { up.Close() })()
	go func() { io.Copy(up, r); up.(*net.TCPConn).CloseWrite() }()
	io.Copy(conn, up)
}

// bufferedConn reads what was read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
func (c *bufferedConn) SetLinger(sec int) error    { return c.Conn.(*net.TCPConn).SetLinger(sec) }

// client returns a client in the sandbox, which speaks HTTP/1 or HTTP/2.
func (o *opened) client(t testing.TB, http2 bool) *http.Client {
	transport := &http.Transport{
		Proxy:              http.ProxyURL(o.proxy),
		TLSClientConfig:    &tls.Config{RootCAs: trusting(o.ca, o.world)},
		Protocols:          new(http.Protocols),
		DisableCompression: true,
	}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: hung}
}

// both runs a test by HTTP/1 and by HTTP/2.
func both(t *testing.T, test func(t *testing.T, http2 bool)) {
	t.Run("HTTP/1", func(t *testing.T) { t.Parallel(); test(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { t.Parallel(); test(t, true) })
}

// do sends a request and returns the answer with its whole body.
func do(t testing.TB, client *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(body)
}

func get(t testing.TB, url string, header ...string) *http.Request {
	t.Helper()
	return request(t, http.MethodGet, url, nil, header...)
}

func request(t testing.TB, method, url string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// sighted returns the next decision, but for what is allowed.
func (o *opened) sighted(t testing.TB) string {
	t.Helper()
	select {
	case d := <-o.seen:
		return fmt.Sprintf("%s %s: %s", d.Verdict, d.Secret, d.Reason)
	case <-time.After(hung):
		t.Fatal("nothing was reported")
		return ""
	}
}

// hides fails the test if a text has the secret.
func hides(t testing.TB, text string) {
	t.Helper()
	for _, s := range mask.Spellings(theValue) {
		if strings.Contains(text, s) {
			t.Errorf("the secret is in the sandbox: %.300q", text)
			return
		}
	}
}

// tunnel returns a connection to a host, as a program in the sandbox makes it.
func (o *opened) tunnel(t testing.TB, host string, protocols ...string) *tls.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", o.proxy.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hung))
	io.WriteString(conn, "CONNECT "+host+":443 HTTP/1.1\r\n\r\n")
	if answer := make([]byte, 19); true {
		if _, err := io.ReadFull(conn, answer); err != nil || !strings.HasSuffix(string(answer), "\r\n\r\n") {
			t.Fatalf("%q, %v", answer, err)
		}
	}
	return tls.Client(conn, &tls.Config{ServerName: host, RootCAs: trusting(o.ca, o.world), NextProtos: protocols})
}

func mustCA(t testing.TB, seed string) *authority.CA {
	t.Helper()
	ca, err := authority.New([]byte(seed))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}
