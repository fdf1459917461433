package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// hung bounds what would otherwise hang.
const hung = 30 * time.Second

// front is a proxy on a port of the loopback, as the agent's is in a sandbox.
type front struct {
	*Server
	addr string

	mu        sync.Mutex
	decisions []Decision
	changed   *sync.Cond
}

func newFront(t testing.TB, opts Options, rules ...string) *front {
	t.Helper()
	return newFrontThat(t, opts, nil, rules...)
}

// newFrontThat is newFront with what opens TLS.
func newFrontThat(t testing.TB, opts Options, o opener, rules ...string) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{addr: l.Addr().String()}
	f.changed = sync.NewCond(&f.mu)
	opts.Policy = policyOf(t, rules...)
	opts.Log = func(d Decision) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.decisions = append(f.decisions, d)
		f.changed.Broadcast()
	}
	f.Server = start(context.Background(), l, opts, o)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// decision waits for the decision of this number, from 0.
func (f *front) decision(n int) Decision {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.decisions) <= n {
		f.changed.Wait()
	}
	return f.decisions[n]
}

// dial connects to the proxy.
func (f *front) dial(t testing.TB) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(hung))
	return conn.(*net.TCPConn)
}

// connect asks for a host by CONNECT, and returns the answer, and the connection.
func (f *front) connect(t testing.TB, hostport string) (*http.Response, *net.TCPConn) {
	t.Helper()
	conn := f.dial(t)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", hostport)
	return readAnswer(t, conn, &http.Request{Method: "CONNECT"}), conn
}

// readAnswer reads an answer, and no byte beyond its head, nor its body if it succeeded.
func readAnswer(t testing.TB, conn net.Conn, r *http.Request) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReaderSize(oneByte{conn}, 16), r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// oneByte reads byte by byte.
type oneByte struct{ io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

// socks asks for a host by SOCKS5, as an address of type 3, and returns the reply.
func (f *front) socks(t testing.TB, host string, port int) (reply byte, conn *net.TCPConn) {
	t.Helper()
	return f.socksRaw(t, append([]byte{3, byte(len(host))}, host...), port)
}

func (f *front) socksRaw(t testing.TB, address []byte, port int) (reply byte, conn *net.TCPConn) {
	t.Helper()
	conn = f.dial(t)
	request := append([]byte{5, 1, 0, 5, 1, 0}, address...)
	if _, err := conn.Write(append(request, byte(port>>8), byte(port))); err != nil {
		t.Fatal(err)
	}
	var answer [12]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		t.Fatalf("%v, after % x", err, answer)
	}
	return answer[3], conn
}

// client returns an HTTP client that uses the proxy by this scheme, http or socks5.
func (f *front) client(t testing.TB, scheme string, roots *x509.CertPool) *http.Client {
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: scheme, Host: f.addr}),
		TLSClientConfig: &tls.Config{RootCAs: roots},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: hung, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// testCA is a CA of the tests' own.
type testCA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string // PEM
}

func newAuthority(t testing.TB) *testCA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	a := &testCA{key: key, pool: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "ca.pem")}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	if err := os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate for names.
func (a *testCA) issue(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
}

// serveHTTP serves a handler on the loopback, and returns the port.
func serveHTTP(t testing.TB, h http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// serveHTTPS does so with TLS, for names.
func serveHTTPS(t testing.TB, a *testCA, h http.HandlerFunc, names ...string) int {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, names...)}}
	s.Config.ErrorLog = discard
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// serveEach serves each connection to a port of the loopback, and returns the port.
func serveEach(t testing.TB, serve func(*net.TCPConn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// named returns a rule by which a name is a port of the loopback.
func named(name string, port int) string { return fmt.Sprintf("%s=127.0.0.1:%d", name, port) }

func body(t testing.TB, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
