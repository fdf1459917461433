package egress

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress/internal/authority"
)

// newOpeningFront is newFront with secrets, for hosts that the world's CA vouches for.
func newOpeningFront(t testing.TB, world *authority.CA, rules []string, secrets ...Secret) (*front, *tlsOpener) {
	t.Helper()
	o, err := newTLSOpener(Options{Secrets: secrets, Roots: trusting(world)})
	if err != nil {
		t.Fatal(err)
	}
	return newFrontThat(t, Options{}, o, rules...), o
}

// A placeholder stays in whatever is not TLS to its host, and that is told.
func TestPlaceholderInPlainHTTPStaysAndIsTold(t *testing.T) {
	got := make(chan *http.Request, 10)
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Form = map[string][]string{"body": {string(body)}}
		got <- r
	}))
	defer plain.Close()
	port := plain.Listener.Addr().(*net.TCPAddr).Port
	s := theSecret(t)
	s.Hosts = mustRules(t, fmt.Sprintf("%s:%d", theHost, port))
	f, o := newOpeningFront(t, mustCA(t, "world"), []string{fmt.Sprintf("%s=127.0.0.1:%d", theHost, port)}, s)
	p := o.secrets.all[0].placeholder
	answer, _ := do(t, f.client(t, "http", nil), request(t, "POST", fmt.Sprintf("http://%s:%d/?key=%s", theHost, port, p), strings.NewReader("it is "+p), "Authorization", "Bearer "+p))
	r := <-got
	if answer.StatusCode != 200 || r.Header.Get("Authorization") != "Bearer "+p || r.RequestURI != "/?key="+p || r.Form.Get("body") != "it is "+p {
		t.Errorf("%s: the host got %s with %v and %v", answer.Status, r.RequestURI, r.Header, r.Form)
	}
	told := map[string]bool{}
	for n := range 4 {
		if d := f.decision(n); d.Verdict == Noticed && d.Secret == "TOKEN" && d.Protocol == protocolHTTP {
			told[d.Reason] = true
		}
	}
	for _, where := range []string{"the URL", "the header Authorization", "the body"} {
		if !told["its placeholder is in "+where+", and stays there"] {
			t.Errorf("not told of %s: %v", where, told)
		}
	}
}

func TestEachWayInOpensTLS(t *testing.T) {
	world := mustCA(t, "world")
	w := &opened{tlsOpener: &tlsOpener{}, world: world, hosts: map[string]string{}}
	host := newWitness(nil)
	port := w.host(t, theHost, host).Listener.Addr().(*net.TCPAddr).Port
	s := theSecret(t)
	s.Hosts = mustRules(t, fmt.Sprintf("%s:%d", theHost, port), "denied.example.test")
	f, o := newOpeningFront(t, world, []string{fmt.Sprintf("%s=127.0.0.1:%d", theHost, port)}, s)
	p := o.secrets.all[0].placeholder
	for n, way := range []string{"http", "socks5"} {
		client := f.client(t, way, trusting(o.ca))
		url := fmt.Sprintf("https://%s:%d", theHost, port)
		for range 2 {
			do(t, client, get(t, url, "Authorization", "Bearer "+p))
			if got := (<-host.requests).Header.Get("Authorization"); got != "Bearer "+theValue {
				t.Errorf("%s: %s", way, got)
			}
		}
		d, reached := f.decision(2*n), f.decision(2*n+1)
		if d.Verdict != Allowed || d.Secret != "TOKEN" || d.Host != theHost || d.Reason != "its value was put into the header Authorization" {
			t.Errorf("%s: %+v", way, d)
		}
		if reached.Verdict != Allowed || reached.Secret != "" || reached.ID != d.ID || !reached.Address.IsValid() {
			t.Errorf("%s: %+v", way, reached)
		}
	}
	// A secret's host needs a rule, too.
	if answer, _ := f.connect(t, "denied.example.test:443"); answer.StatusCode != http.StatusForbidden {
		t.Errorf("a host without a rule: %s", answer.Status)
	}
}

// A policy that changes ends what it does not allow, opened or not.
func TestPolicyEndsOpenedTLS(t *testing.T) {
	world := mustCA(t, "world")
	w := &opened{tlsOpener: &tlsOpener{}, world: world, hosts: map[string]string{}}
	port := w.host(t, theHost, newWitness(nil)).Listener.Addr().(*net.TCPAddr).Port
	s := theSecret(t)
	s.Hosts = mustRules(t, fmt.Sprintf("%s:%d", theHost, port))
	f, o := newOpeningFront(t, world, []string{fmt.Sprintf("%s=127.0.0.1:%d", theHost, port)}, s)
	client := f.client(t, "http", trusting(o.ca))
	url := fmt.Sprintf("https://%s:%d", theHost, port)
	if _, body := do(t, client, get(t, url)); body != "welcome" {
		t.Errorf("%q", body)
	}
	f.SetPolicy(Policy{})
	if answer, body := do(t, client, get(t, url)); answer.StatusCode != http.StatusForbidden || !strings.Contains(body, "Egress denied") {
		t.Errorf("%s %q", answer.Status, body)
	}
}

// A client that does not trust the CA is told of, since its user has to know.
func TestClientThatDoesNotTrustTheCAIsTold(t *testing.T) {
	world := mustCA(t, "world")
	f, _ := newOpeningFront(t, world, []string{theHost + "=127.0.0.1"}, theSecret(t))
	if _, err := f.client(t, "http", trusting(world)).Get("https://" + theHost); err == nil {
		t.Error("it is trusted")
	}
	if d := f.decision(0); d.Verdict != Failed || !strings.Contains(d.Reason, "SSL_CERT_FILE") {
		t.Errorf("%+v", d)
	}
}

// BenchmarkOpened measures a host's bytes by opened TLS, and by a tunnel.
func BenchmarkOpened(b *testing.B) {
	const size = 64 << 20
	for _, kind := range []string{"application/octet-stream", "text/plain"} {
		for _, http2 := range []bool{false, true} {
			for _, opens := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/http2=%v/opened=%v", kind, http2, opens), func(b *testing.B) {
					o := newOpened(b, theSecret(b))
					host := map[bool]string{true: theHost, false: otherHost}[opens]
					o.host(b, host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header().Set("Content-Type", kind)
						io.CopyN(w, zeros{}, size)
					}))
					client := o.client(b, http2)
					b.SetBytes(size)
					for b.Loop() {
						answer, err := client.Get("https://" + host)
						if err != nil {
							b.Fatal(err)
						}
						n, err := io.Copy(io.Discard, answer.Body)
						if answer.Body.Close(); n != size || err != nil {
							b.Fatal(n, err)
						}
					}
				})
			}
		}
	}
}

// A sandbox that opens more connections than there may be is refused, and the others go on.
func TestOpenedConnectionsAreBounded(t *testing.T) {
	o := newOpened(t, theSecret(t))
	o.host(t, theHost, newWitness(nil))
	var open []*tls.Conn
	for range mostOpened {
		conn := o.tunnel(t, theHost, "http/1.1")
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	if err := o.tunnel(t, theHost, "http/1.1").Handshake(); err == nil {
		t.Error("one more is served")
	}
	if got := o.sighted(t); !strings.Contains(got, "no more") {
		t.Error(got)
	}
	fmt.Fprintf(open[0], "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", theHost)
	if got, err := io.ReadAll(open[0]); err != nil || !strings.Contains(string(got), "welcome") {
		t.Errorf("%q, %v", got, err)
	}
	for range mostHostConns {
		o.conns <- struct{}{}
	}
	fmt.Fprintf(open[1], "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", theHost)
	if got, err := io.ReadAll(open[1]); err != nil || !strings.Contains(string(got), " 502 ") || !strings.Contains(string(got), "no more") {
		t.Errorf("%q, %v", got, err)
	}
}

// Connections to hosts give their places back.
func TestConnectionsToHostsGiveTheirPlacesBack(t *testing.T) {
	both(t, func(t *testing.T, http2 bool) {
		o := newOpened(t, theSecret(t))
		o.host(t, theHost, newWitness(nil))
		client := o.client(t, http2)
		do(t, client, get(t, "https://"+theHost))
		if len(o.conns) != 1 || len(o.clients) != 1 {
			t.Errorf("%d connections to hosts, %d clients", len(o.conns), len(o.clients))
		}
		client.CloseIdleConnections()
		for len(o.conns)+len(o.clients) > 0 { // until the end is seen
			runtime.Gosched()
		}
		// Also when the client goes while the host is at work.
		working, ctx := make(chan struct{}), context.Background()
		o.host(t, theHost, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { close(working); <-r.Context().Done() }))
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-working
			cancel()
		}()
		if answer, err := client.Do(get(t, "https://"+theHost).WithContext(ctx)); err == nil {
			t.Error(answer.Status)
		}
		for len(o.conns)+len(o.clients) > 0 {
			client.CloseIdleConnections() // once the request's end is seen
			runtime.Gosched()
		}
	})
}
